// Kernels by the line of the program that launched them.

#include "tools/trace/report/kernel_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "tests/report/report_testing.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/text.h"

namespace slipstream::report {
namespace {

class KernelLinesTest : public ReportTest {
 protected:
  // Of each step, "gemm" (200 ns) is of the launch at line 20, "elementwise" (150 ns) of the other thread's.
  void Launched() {
    Sample("0.spool", 0);
    BuildWell();
    AddDevices(/*limits=*/true);
    const auto launched = [&](const std::string& kernel, const std::string& thread) {
      Execute(database_,
              "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = (SELECT r.correlationId FROM "
              "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN SLIPSTREAM_CALLS c USING (correlationId) JOIN StringIds n ON n.id = "
              "r.nameId WHERE n.value LIKE 'cudaLaunchKernel%' AND c.thread = " +
                  thread +
                  " AND r.start < CUPTI_ACTIVITY_KIND_KERNEL.start ORDER BY r.start DESC LIMIT 1) WHERE shortName = " +
                  kernel);
    };
    launched("900002", "1");
    launched("900003", "2");
  }
  const DeviceReport& Device() {
    report_ = Make();
    return report_.processes.at(0).devices.at(0);
  }

  using Row = std::tuple<bool, bool, int64_t, uint64_t, int64_t, std::string, int64_t>;
  static std::vector<Row> RowsOf(const DeviceReport& device) {
    std::vector<Row> rows;
    for (const KernelLineReport& of : device.kernel_lines) {
      rows.emplace_back(of.call_known, of.line.of_step_thread, of.line.line.value_or(0), of.launches, of.time,
                        of.top_kernel, of.top_time);
    }
    return rows;
  }

  Report report_;
};

TEST_F(KernelLinesTest, ByTheLineOfTheCall) {
  Launched();
  const DeviceReport& device = Device();
  EXPECT_EQ(RowsOf(device), (std::vector<Row>{{true, true, 20, 8, 1600, "gemm", 1600},
                                              {true, false, 0, 8, 1200, "elementwise", 1200}}));
  EXPECT_EQ(device.kernel_time, 1600 + 1200);
  EXPECT_EQ(device.kernel_lines[0].line.function, "step");
  EXPECT_FALSE(device.kernel_lines[1].line.known);
}

// The line of autograd's calls is the one that called backward(), as in the call sites.
TEST_F(KernelLinesTest, AnotherThreadsLineIsARowOfItsOwn) {
  Launched();
  Execute(database_,
          "UPDATE SLIPSTREAM_CALLS SET siteIsBackward = 1, siteId = (SELECT siteId FROM SLIPSTREAM_SITES WHERE line = "
          "20) WHERE thread = 2");
  EXPECT_EQ(RowsOf(Device()), (std::vector<Row>{{true, true, 20, 8, 1600, "gemm", 1600},
                                                {true, false, 20, 8, 1200, "elementwise", 1200}}));
}

TEST_F(KernelLinesTest, TheKernelWithMostTimeOfALine) {
  Launched();
  // All of one launch of each step: 8 x 200 ns of "gemm", 8 x 150 ns of "elementwise".
  Execute(database_,
          "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = (SELECT k.correlationId FROM "
          "CUPTI_ACTIVITY_KIND_KERNEL k WHERE k.shortName = 900002 LIMIT 1)");
  EXPECT_EQ(RowsOf(Device()), (std::vector<Row>{{true, true, 20, 16, 2800, "gemm", 1600}}));
}

// Rows add up to the time of kernels: work whose call is not in the trace is a row, too.
TEST_F(KernelLinesTest, WithoutACallOrOfAnotherProcess) {
  Launched();
  Execute(database_,
          "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 999999 WHERE rowid = (SELECT min(rowid) FROM "
          "CUPTI_ACTIVITY_KIND_KERNEL WHERE shortName = 900002)");
  const DeviceReport& device = Device();
  EXPECT_EQ(RowsOf(device), (std::vector<Row>{{true, true, 20, 7, 1400, "gemm", 1400},
                                              {true, false, 0, 8, 1200, "elementwise", 1200},
                                              {false, true, 0, 1, 200, "gemm", 200}}));
  const nlohmann::json json = nlohmann::json::parse(ReportJson(report_, false))["processes"][0]["devices"][0];
  int64_t sum = 0;
  for (const nlohmann::json& line : json["kernel_lines"]) sum += line["time_ns"].get<int64_t>();
  EXPECT_EQ(sum, json["kernel_time_ns"].get<int64_t>());
  EXPECT_EQ(json["kernel_lines"][0]["file"], "/job/train.py");
  EXPECT_EQ(json["kernel_lines"][2]["call_known"], false);
  EXPECT_TRUE(json["kernel_lines"][2]["of_step_thread"].is_null());
  const std::string text = FormatReport(report_);
  const size_t at = text.find("  kernels by the line that launched them");
  ASSERT_NE(at, std::string::npos) << text;
  // 1400 of 2800 ns, in 8 steps.
  EXPECT_NE(text.find("175 ns   50.0 %    0.88 x  /job/train.py:20 (step) ", at), std::string::npos) << text;
  EXPECT_NE(text.find("(other threads, no line known)", at), std::string::npos) << text;
  EXPECT_NE(text.find("(their calls are not in the trace)", at), std::string::npos) << text;
}

// Six rows at most, and the last of them is all the rest.
TEST_F(KernelLinesTest, ManyLinesOnTheScreen) {
  Launched();
  std::string sql;
  for (int i = 1; i <= 8; ++i) {
    const std::string number = std::to_string(i);
    sql += "INSERT INTO SLIPSTREAM_SITES (siteId, file, line, function, isLibrary) VALUES (" +
           std::to_string(5000 + i) + ", '/job/m.py', " + number + ", 'f', 0);";
    // The launch of step i, of the thread that makes the steps.
    sql +=
        "UPDATE SLIPSTREAM_CALLS SET siteId = " + std::to_string(5000 + i) +
        " WHERE correlationId = (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE shortName = 900002 ORDER "
        "BY start LIMIT 1 OFFSET " +
        std::to_string(i - 1) + ");";
  }
  Execute(database_, sql);
  const DeviceReport& device = Device();
  ASSERT_EQ(device.kernel_lines.size(), 9U);
  const std::string text = FormatReport(report_);
  EXPECT_NE(text.find("/job/m.py:4 (f)"), std::string::npos) << text;
  // Lines 5 to 8: 4 x 200 ns of 2800.
  EXPECT_NE(text.find("100 ns   28.6 %    0.50 x  4 more lines (--json has all)"), std::string::npos) << text;
}

TEST_F(KernelLinesTest, NullWhereNothingSaysWhoLaunchedThem) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  Execute(database_, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN correlationId");
  const DeviceReport& device = Device();
  EXPECT_TRUE(device.kernel_lines.empty());
  const nlohmann::json json = nlohmann::json::parse(ReportJson(report_, false))["processes"][0]["devices"][0];
  EXPECT_TRUE(json["kernel_lines"].is_null());
  EXPECT_EQ(json["kernel_time_ns"], 2800);
  EXPECT_EQ(FormatReport(report_).find("kernels by the line"), std::string::npos);
}

}  // namespace
}  // namespace slipstream::report
