// How long a real process went on past waits that were skipped, as the report has it, against what the tables of its
// trace say row by row.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"

namespace slipstream::test {
namespace {

struct Row {
  int64_t start = 0;
  int64_t end = 0;
  std::string function;
  std::string decision;
  int64_t stream = 0;
};

// All that the one thread of the program called, itself.
std::vector<Row> CallsOf(const std::string& database) {
  std::vector<Row> calls;
  for (const auto& row : trace_db::Query(
           database,
           "SELECT r.start, r.end, n.value, coalesce(s.value, ''), c.stream FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
           "JOIN SLIPSTREAM_CALLS c USING (correlationId) JOIN StringIds n ON n.id = r.nameId "
           "LEFT JOIN SLIPSTREAM_DECISIONS d USING (correlationId) LEFT JOIN StringIds s ON s.id = d.decisionId "
           "WHERE r.eventClass = 0 ORDER BY r.start")) {
    calls.push_back({std::stoll(row[0]), std::stoll(row[1]), row[2], row[3], std::stoll(row[4])});
  }
  return calls;
}

// When the last of a stream's kernels and copies ended that were asked for before: the stream of its kernels.
int64_t EndOfWork(const std::string& database, int64_t handle, int64_t before) {
  std::string until = "SELECT max(w.end) FROM (";
  until += "SELECT end, streamId, correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL ";
  until += "SELECT end, streamId, correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY) w ";
  until += "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE r.start < " + std::to_string(before);
  until += " AND w.streamId IN (SELECT k.streamId FROM CUPTI_ACTIVITY_KIND_KERNEL k ";
  until += "JOIN SLIPSTREAM_CALLS c USING (correlationId) WHERE c.stream = " + std::to_string(handle) + ")";
  return std::stoll(trace_db::One(database, until));
}

struct Made {
  std::string database;
  report::Report report;
};

Made ReportOf(const Variables& more) {
  const std::string directory = NewDirectory();
  Variables variables = more;
  variables["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
  const Finished finished = RunTraced({DEVICE_WORK, "0", "0", "blocking"}, directory, variables);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "0 rounds done\n");
  Made made;
  made.database = NewDirectory() + "/trace.sqlite";
  const auto built = trace_db::BuildTraceDatabase({.run = directory, .database = made.database});
  EXPECT_EQ(built.problem, trace_db::BuildProblem::kNone) << built.what;
  trace_db::DatabaseReader reader(made.database);
  made.report = report::MakeReport(&reader, {});
  EXPECT_TRUE(reader.ok()) << reader.error().text;
  return made;
}

class AheadReportTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AheadReportTest, IsWhatTheTablesSay) {
  const Made made = ReportOf({{"SIMCUDA_MODE", GetParam()}});
  const report::ProcessReport& process = made.report.processes.at(0);
  ASSERT_TRUE(process.ahead.has_value());
  const std::vector<Row> calls = CallsOf(made.database);
  // When the host was past a skipped wait: intervals, put together.
  std::vector<std::pair<int64_t, int64_t>> ahead;
  size_t synchronizations = 0;
  size_t copies = 0;
  size_t behind_work = 0;
  for (const Row& call : calls) {
    const bool skipped =
        call.function.starts_with("cudaStreamSynchronize_v") && call.decision == "transfer.sync.skipped";
    const bool copied = call.function.starts_with("cudaMemcpy_v") && call.decision == "transfer.h2d.promoted.large";
    synchronizations += skipped ? 1 : 0;
    copies += copied ? 1 : 0;
    if (!skipped && !copied) continue;
    const int64_t until = EndOfWork(made.database, call.stream, call.start);
    if (until <= call.end) continue;
    ++behind_work;
    if (!ahead.empty() && call.end <= ahead.back().second) {
      ahead.back().second = std::max(ahead.back().second, until);
    } else {
      ahead.emplace_back(call.end, until);
    }
  }
  EXPECT_EQ(synchronizations, 2U);
  EXPECT_EQ(copies, 1U);
  int64_t went_on = 0;
  int64_t waited = 0;
  for (const auto& [from, to] : ahead) {
    went_on += to - from;
    for (const Row& call : calls) {
      const bool may_wait =
          call.function.find("Synchronize") != std::string::npos ||
          (call.function.starts_with("cudaMemcpy") && !call.decision.starts_with("transfer.h2d.promoted"));
      if (may_wait) waited += std::max<int64_t>(0, std::min(to, call.end) - std::max(from, call.start));
    }
  }
  went_on -= waited;
  EXPECT_EQ(process.ahead->skipped, synchronizations + copies);
  EXPECT_EQ(process.ahead->behind_work, behind_work);
  EXPECT_EQ(process.ahead->stream_unknown, 0U);
  EXPECT_EQ(process.ahead->step_thread.all_went_on(), went_on);
  EXPECT_EQ(process.ahead->step_thread.waited_later, waited);
  EXPECT_EQ(process.ahead->step_thread.added, 0);
  EXPECT_EQ(process.ahead->other_threads.all_went_on(), 0);
  if (std::string(GetParam()) != "adversarial") return;
  // There nothing runs before somebody waits for it: behind the two synchronizations that are skipped all is still to
  // do, and the device synchronization waits for the kernel, once.
  EXPECT_GE(behind_work, 2U);
  EXPECT_GT(went_on, 0);
  EXPECT_GT(waited, 0);
  EXPECT_LT(ahead.size(), behind_work);
}

INSTANTIATE_TEST_SUITE_P(Modes, AheadReportTest, ::testing::Values("adversarial", "timed"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(AheadReportOffTest, WhereEveryWaitIsMadeThereIsNone) {
  const Made made = ReportOf({{"SLIPSTREAM_TRANSFER_SKIP_SYNCHRONIZE", "false"}});
  const report::ProcessReport& process = made.report.processes.at(0);
  ASSERT_TRUE(process.ahead.has_value());
  EXPECT_EQ(process.ahead->step_thread.all_went_on(), 0);
  EXPECT_EQ(process.ahead->behind_work, 0U);
}

}  // namespace
}  // namespace slipstream::test
