// What commands that read a recorded run take for one, and what they say and leave behind where it is none.

#include "tools/cli/trace_input.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/support/process.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/cli/trace_build.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::InChild;
using trace_db::Question;

class TraceInputTest : public trace_db::TraceDbTest {
 protected:
  void Sample() {
    trace_db::HandSpool spool(run_, "0.spool");
    spool.Facts({{"pid", "100"}, {"host", "node"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    spool.Pass(1000);
    spool.Records(1, {trace_db::CallAt(2000, 2500), trace_db::CallAt(3000, 3500)});
    spool.End();
  }
  // In a child: the exit status is OpenTrace's, and standard output the number of calls that the database has.
  Finished Open(
      const std::string& run, const std::function<void()>& before = [] {}) {
    return InChild([&] {
      before();
      const EndingSignals signals;
      const TraceInput input = OpenTrace("report", run, "1.2.3");
      if (input.status != kSuccess) return input.status;
      Question question(*input.database, "SELECT count(*) FROM SLIPSTREAM_CALLS");
      const bool has_row = question.Next();
      std::printf("%s %d", has_row ? std::to_string(question.Number(0)).c_str() : "none", input.was_database);
      std::fflush(stdout);
      return input.status;
    });
  }
  std::string NewFolder(const std::string& name) {
    std::string folder = std::filesystem::path(database_).parent_path().string() + "/" + name;
    std::filesystem::create_directory(folder);
    return folder;
  }
};

TEST_F(TraceInputTest, ARunsDirectory) {
  Sample();
  const Finished finished = Open(run_);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_EQ(finished.err, "");
}

TEST_F(TraceInputTest, OneSpoolFile) {
  Sample();
  EXPECT_EQ(Open(run_ + "/0.spool").out, "2 0");
}

TEST_F(TraceInputTest, ADatabaseThatWasMadeBefore) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  const Finished finished = Open(database_);
  EXPECT_EQ(finished.out, "2 1") << finished.err;
}

TEST_F(TraceInputTest, ADatabaseWhoseNameIsNoUri) {
  Sample();
  const std::string odd = NewFolder("a?b#c%20d &mode=rw") + "/x?mode=memory";
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = odd}).problem, trace_db::BuildProblem::kNone);
  EXPECT_EQ(Open(odd).out, "2 1");
}

TEST_F(TraceInputTest, NothingIsLeftInTheTemporaryDirectory) {
  Sample();
  const std::string folder = NewFolder("tmp");
  const Finished finished = Open(run_, [&] { setenv("TMPDIR", folder.c_str(), 1); });
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  const Finished none = Open(NewFolder("empty"), [&] { setenv("TMPDIR", folder.c_str(), 1); });
  EXPECT_EQ(none.status, kFailed);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(TraceInputTest, ATemporaryDirectoryThatIsNotThere) {
  Sample();
  const Finished finished = Open(run_, [] { setenv("TMPDIR", "/nowhere", 1); });
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("slipstream report: /nowhere/slipstream-"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("Set TMPDIR"), std::string::npos) << finished.err;
}

TEST_F(TraceInputTest, NoSuchRun) {
  const Finished finished = Open("/nowhere");
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("slipstream report: "), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("/nowhere"), std::string::npos) << finished.err;
}

TEST_F(TraceInputTest, ADatabaseThatIsCut) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  ASSERT_EQ(truncate(database_.c_str(), 50), 0);
  const Finished finished = Open(database_);
  EXPECT_EQ(finished.status, kFailed) << finished.out;
  EXPECT_NE(finished.err.find(": cannot be read: "), std::string::npos) << finished.err;
}

TEST_F(TraceInputTest, ADatabaseWithAViewInPlaceOfATable) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(database_.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, "CREATE VIEW SLIPSTREAM_CALLS AS SELECT 1", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  const Finished finished = Open(database_);
  EXPECT_EQ(finished.status, kFailed) << finished.out;
  EXPECT_NE(finished.err.find(": cannot be read: its SLIPSTREAM_CALLS is a view and no table\n"), std::string::npos)
      << finished.err;
}

TEST_F(TraceInputTest, AQuestionThatIsWrongIsAnError) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  trace_db::DatabaseReader reader(database_);
  EXPECT_TRUE(reader.HasTable("SLIPSTREAM_CALLS"));
  EXPECT_FALSE(reader.HasTable("CUPTI_ACTIVITY_KIND_KERNEL"));
  EXPECT_TRUE(reader.HasColumn("SLIPSTREAM_CALLS", "bytes"));
  EXPECT_FALSE(reader.HasColumn("SLIPSTREAM_CALLS", "kernels"));
  Question question(reader, "SELECT bytes, NULL, 'text', 1.5 FROM SLIPSTREAM_CALLS WHERE correlationId > ? ORDER BY 1");
  EXPECT_TRUE(question.Bind(1, int64_t{0}).Next());
  EXPECT_TRUE(question.IsNull(1));
  EXPECT_EQ(question.NumberIfKnown(1), std::nullopt);
  EXPECT_EQ(question.Text(2), "text");
  EXPECT_EQ(question.Real(3), 1.5);
  EXPECT_TRUE(question.Next());
  EXPECT_FALSE(question.Next());
  question.Again();
  EXPECT_FALSE(question.Bind(1, int64_t{1} << 60).Next());
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(Question(reader, "SELECT nothing FROM SLIPSTREAM_CALLS").Next());
  EXPECT_FALSE(reader.ok());
  EXPECT_NE(reader.error().text.find("nothing"), std::string::npos) << reader.error().text;
}

TEST_F(TraceInputTest, AStopEndsAQuestion) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  trace_db::DatabaseReader reader(database_);
  const std::atomic<bool> stop{true};
  reader.StopWhen(&stop);
  Question question(reader, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n");
  EXPECT_FALSE(question.Next());
  EXPECT_TRUE(reader.stopped());
}

}  // namespace
}  // namespace slipstream::cli
