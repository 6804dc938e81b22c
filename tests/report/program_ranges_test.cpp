// The program's own NVTX ranges in a report.

#include "tools/trace/report/program_ranges.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "tests/report/report_testing.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/text.h"
#include "tracer/spool/range_record.h"

namespace slipstream::report {
namespace {

enum RangeName : uint32_t { kForward = 1, kInner = 2, kDomain = 3, kFirstStep = 10 };

class ProgramRangesReportTest : public ReportTest {
 protected:
  static tracer::TraceRecord Range(uint64_t start, uint64_t end, uint32_t name, uint32_t domain = 0) {
    return tracer::RecordOf(tracer::RangeRecord{
        .start_ns = start, .end_ns = end, .kind = tracer::RangeKind::kPushed, .name = name, .domain = domain});
  }

  // In each step of 1000 ns: "forward" from 50 to 400, within it "forward" again from 80 to 200 and "inner" of the
  // domain "lib" from 250 to 350; launches at 100 and 300, and at 320 one of another thread; a kernel of 20 ns for
  // each.
  void Ranges(bool named_steps) {
    {
      trace_db::HandSpool spool(run_, "0.spool");
      Introduce(&spool, 0);
      spool.Name(tracer::NameTable::kRanges, kForward, "forward");
      spool.Name(tracer::NameTable::kRanges, kInner, "inner");
      spool.Name(tracer::NameTable::kRanges, kDomain, "lib");
      std::vector<tracer::TraceRecord> main;
      std::vector<tracer::TraceRecord> other;
      for (uint64_t i = 0; i < kSteps; ++i) {
        const uint64_t at = kBegin + kStep * i;
        spool.Name(tracer::NameTable::kRanges, kFirstStep + static_cast<uint32_t>(i), "step " + std::to_string(i));
        main.push_back(Call(kLaunchHook, at + 100, at + 110, kLaunchSite));
        main.push_back(Range(at + 80, at + 200, kForward));
        main.push_back(Call(kLaunchHook, at + 300, at + 310, kLaunchSite));
        other.push_back(Call(kLaunchHook, at + 320, at + 330, kNoSite));
        main.push_back(Range(at + 250, at + 350, kInner, kDomain));
        main.push_back(Range(at + 50, at + 400, kForward));
        main.push_back(named_steps ? Range(at, at + kStep, kFirstStep + static_cast<uint32_t>(i))
                                   : tracer::StepRecord(at, at + kStep, i));
      }
      spool.Pass(kBegin);
      spool.Records(1, main);
      spool.Records(2, other);
      spool.End();
    }
    BuildWell();
    AddDevices(/*limits=*/false);
    Execute(
        database_,
        "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL;"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT r.start + 500, r.start + 520, 0, 7, r.correlationId, (SELECT "
        "globalPid FROM SLIPSTREAM_PROCESSES), 900001, 900002, 1, 1, 1, 32, 1, 1, 32, 0, 0 FROM "
        "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds n ON n.id = r.nameId WHERE n.value LIKE 'cudaLaunchKernel%'");
  }

  using Row = std::tuple<std::string, std::string, uint64_t, int64_t, uint64_t, int64_t>;
  static std::vector<Row> RowsOf(const Report& report) {
    std::vector<Row> rows;
    for (const RangeReport& range : report.processes.at(0).ranges.names) {
      rows.emplace_back(range.name, range.domain, range.count, range.time, range.kernels, range.kernel_time);
    }
    return rows;
  }
  const std::vector<Row> expected_ = {{"forward", "", 16, 350 * 8, 16, 16 * 20}, {"inner", "lib", 8, 800, 8, 8 * 20}};
};

TEST_F(ProgramRangesReportTest, NestedOnesAndTheKernelsLaunchedWithinThem) {
  Ranges(/*named_steps=*/false);
  const Report report = Make();
  EXPECT_EQ(RowsOf(report), expected_);
  const nlohmann::json ranges = nlohmann::json::parse(ReportJson(report, false))["processes"][0]["ranges"];
  EXPECT_EQ(ranges["left_out"], 0);
  ASSERT_EQ(ranges["names"].size(), 2U);
  EXPECT_EQ(ranges["names"][0]["name"], "forward");
  EXPECT_TRUE(ranges["names"][0]["domain"].is_null());
  EXPECT_EQ(ranges["names"][0]["time_per_step_ns"], 350.0);
  EXPECT_EQ(ranges["names"][1]["domain"], "lib");
  EXPECT_EQ(ranges["names"][1]["kernel_time_ns"], 160);
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("NVTX RANGES of the program, a step; kernels: of what was launched within them\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("    350 ns   35.0 %        2     40 ns   forward\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    100 ns   10.0 %        1     20 ns   inner [lib]\n"), std::string::npos) << text;
}

// Steps have rows of their own.
TEST_F(ProgramRangesReportTest, RangesThatAreTheStepsAreLeftOut) {
  Ranges(/*named_steps=*/true);
  const Report report = Make();
  ASSERT_EQ(report.processes.at(0).measured_steps, kSteps);
  EXPECT_EQ(RowsOf(report), expected_);
}

// The thread of the steps is in backward() while autograd's launches.
TEST_F(ProgramRangesReportTest, WhatAutogradLaunchesIsOfTheStepThreadsRanges) {
  Ranges(/*named_steps=*/false);
  Execute(database_, "UPDATE SLIPSTREAM_CALLS SET siteIsBackward = 1 WHERE thread = 2");
  EXPECT_EQ(RowsOf(Make()),
            (std::vector<Row>{{"forward", "", 16, 350 * 8, 24, 24 * 20}, {"inner", "lib", 8, 800, 16, 320}}));
}

// What is outside the measured time counts for nothing, and of a range across its border the part within.
TEST_F(ProgramRangesReportTest, OfTheMeasuredTime) {
  Ranges(/*named_steps=*/false);
  const std::string tid = One("SELECT globalTid FROM SLIPSTREAM_STEPS LIMIT 1");
  const int64_t first = std::stoll(One("SELECT min(start) FROM SLIPSTREAM_STEPS"));
  const auto range = [&](int64_t from, int64_t to) {
    return "INSERT INTO NVTX_EVENTS (start, \"end\", eventType, text, globalTid, domainId) VALUES (" +
           std::to_string(first + from) + ", " + std::to_string(first + to) + ", 59, 'load', " + tid + ", 0);";
  };
  Execute(database_, range(-90, -10) + range(-10, 30) + range(8000 - 5, 8000 + 50) + range(8100, 8200));
  std::vector<Row> expected = expected_;
  expected.emplace_back("load", "", 1, 30 + 5, 0, 0);
  EXPECT_EQ(RowsOf(Make()), expected);
}

TEST_F(ProgramRangesReportTest, TooManyNames) {
  Ranges(/*named_steps=*/false);
  constexpr size_t kMore = kRangeNamesMost + 100;
  Execute(database_,
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(kMore) +
              ") INSERT INTO NVTX_EVENTS (start, \"end\", eventType, text, globalTid, domainId) SELECT s.at, "
              "s.at + 1, 59, 'name ' || i, s.globalTid, 0 FROM n, (SELECT min(start) AS at, globalTid FROM "
              "SLIPSTREAM_STEPS) s");
  const RangesReport ranges = Make().processes.at(0).ranges;
  EXPECT_EQ(ranges.names.size(), kRangeNamesMost);
  // "forward" and "inner" come later: 24 of them.
  EXPECT_EQ(ranges.left_out, 100 + 24U);
}

TEST_F(ProgramRangesReportTest, NoneAtAll) {
  Sample("0.spool", 0);
  BuildWell();
  const Report report = Make();
  EXPECT_TRUE(report.processes.at(0).ranges.names.empty());
  EXPECT_EQ(FormatReport(report).find("NVTX RANGES"), std::string::npos);
}

// Without records of devices, nothing is said of them.
TEST_F(ProgramRangesReportTest, WithoutKernels) {
  Ranges(/*named_steps=*/false);
  Execute(database_, "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL");
  const Report report = Make();
  const nlohmann::json ranges = nlohmann::json::parse(ReportJson(report, false))["processes"][0]["ranges"];
  EXPECT_TRUE(ranges["names"][0]["kernel_time_ns"].is_null());
  EXPECT_TRUE(ranges["names"][0]["kernels"].is_null());
  EXPECT_EQ(ranges["names"][0]["time_ns"], 2800);
  EXPECT_NE(FormatReport(report).find("    350 ns   35.0 %        2   forward\n"), std::string::npos)
      << FormatReport(report);
}

}  // namespace
}  // namespace slipstream::report
