// What tests of skipped waits share: a run written row by row, calls of the host beside work of a device.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <regex>
#include <string>

#include "tests/report/report_testing.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/report/text.h"

namespace slipstream::report {

// The screen, with lines that go on in the next one as one.
inline std::string Screen(const Report& report) {
  return std::regex_replace(FormatReport(report), std::regex("\n      "), " ");
}

inline constexpr int64_t kMain = 1;
inline constexpr int64_t kOther = 2;
inline constexpr int64_t kStream = 5000;  // a handle
inline constexpr int64_t kNumber = 17;    // CUPTI's number of that stream
inline constexpr int64_t kGlobalPid = int64_t{100} << 24;
inline constexpr char kSkippedName[] = "transfer.sync.skipped";

struct CallOptions {
  int64_t stream = kStream;
  std::string decision = {};
  int64_t bytes = 0;
  int64_t thread = kMain;
  int64_t saved = 0;
  bool driver = false;  // no hook saw it
  int status = 0;
};
struct WorkOptions {
  int64_t number = kNumber;
  int64_t context = 1;
  bool graph = false;
};

class AheadTest : public ReportTest {
 protected:
  void SetUp() override {
    ReportTest::SetUp();
    for (const trace_db::TableLayout& table :
         {trace_db::kStringIds, trace_db::kRuntime, trace_db::kKernels, trace_db::kCopies, trace_db::kSets,
          trace_db::kOwnHosts, trace_db::kOwnProcesses, trace_db::kOwnThreads, trace_db::kOwnCalls,
          trace_db::kOwnDecisions, trace_db::kOwnSites, trace_db::kOwnMemory, trace_db::kOwnDrops, trace_db::kOwnSteps,
          trace_db::kOwnDeviceWork, trace_db::kOwnDevicePeriods}) {
      sql_ += std::string("CREATE TABLE ") + table.name + " (" + table.columns + ");";
    }
    sql_ += "INSERT INTO SLIPSTREAM_HOSTS VALUES (1, 'node', 1, 0, 0, 0);";
    for (const int64_t thread : {kMain, kOther}) {
      Insert("SLIPSTREAM_THREADS", "1, " + std::to_string(thread) + ", " + std::to_string(100 + thread) + ", " +
                                       std::to_string(kGlobalPid + 100 + thread) + ", 'thread', 1, 0, 0");
    }
  }

  void Insert(const std::string& table, const std::string& values) {
    sql_ += "INSERT INTO " + table + " VALUES (" + values + ");";
  }
  int64_t Text(const std::string& text) {
    const auto [at, is_new] = texts_.try_emplace(text, static_cast<int64_t>(texts_.size()) + 1);
    if (is_new) Insert("StringIds", std::to_string(at->second) + ", '" + text + "'");
    return at->second;
  }
  void Step(int64_t start, int64_t end) {
    Insert("SLIPSTREAM_STEPS", std::to_string(start) + ", " + std::to_string(end) + ", 1, 1, " +
                                   std::to_string(kGlobalPid + 101) + ", " + std::to_string(++steps_) + ", NULL, 0");
  }
  void Period(int64_t start, int64_t end) {
    Insert("SLIPSTREAM_DEVICE_PERIODS", "1, " + std::to_string(start) + ", " + std::to_string(end));
    has_period_ = true;
  }
  // What devices did was not recorded.
  void NoPeriod() { has_period_ = true; }
  // The number of the call.
  int64_t Call(const std::string& function, int64_t start, int64_t end, const CallOptions& more = {}) {
    const std::string call = std::to_string(++calls_);
    Insert("CUPTI_ACTIVITY_KIND_RUNTIME",
           std::to_string(start) + ", " + std::to_string(end) + ", " + (more.driver ? "1" : "0") + ", " +
               std::to_string(kGlobalPid + 100 + more.thread) + ", " + call + ", " + std::to_string(Text(function)) +
               ", " + std::to_string(more.status) + ", NULL");
    Insert("SLIPSTREAM_CALLS", call + ", 1, " + std::to_string(more.thread) + ", NULL, " + std::to_string(more.bytes) +
                                   ", " + std::to_string(more.driver ? 0 : more.stream) +
                                   ", NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, 0");
    if (!more.decision.empty()) {
      Insert("SLIPSTREAM_DECISIONS", call + ", " + std::to_string(Text(more.decision)) + ", " +
                                         std::to_string(more.bytes) + ", " + std::to_string(more.saved));
    }
    return calls_;
  }
  void Kernel(int64_t call, int64_t start, int64_t end, const WorkOptions& more = {}) {
    Insert("CUPTI_ACTIVITY_KIND_KERNEL",
           Common(call, start, end, more) + ", " + std::to_string(Text("gemm")) + ", " + std::to_string(Text("gemm")) +
               ", NULL, NULL, NULL, 32, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL, NULL, NULL, " +
               (more.graph ? "4" : "NULL") + ", NULL");
  }
  void Copy(int64_t call, int64_t start, int64_t end, const WorkOptions& more = {}) {
    Insert("CUPTI_ACTIVITY_KIND_MEMCPY",
           Common(call, start, end, more) + ", 4096, 1, NULL, 1, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL");
  }
  // A launch of a kernel, the promoted copy behind it, and the synchronization behind that: the kernel runs to 500, the
  // copy from there to 550. The next call begins at 700.
  void Promoted() {
    Kernel(Call("cudaLaunchKernel_v7000", 10, 20), 20, 500);
    Copy(Call("cudaMemcpyAsync_v3020", 30, 40, {.decision = "transfer.h2d.promoted.small", .bytes = 4096}), 500, 550);
    Call("cudaStreamSynchronize_v3020", 40, 45, {.decision = kSkippedName});
  }
  Report Made(const ReportOptions& options = {}) {
    if (steps_ == 0) Step(0, 1000);
    if (!has_period_) Period(0, 1'000'000);
    Insert("SLIPSTREAM_PROCESSES", "1, " + std::to_string(kGlobalPid) +
                                       ", 100, NULL, 1, NULL, NULL, NULL, NULL, NULL, '/bin/python3', 'train.py', "
                                       "'0.spool', 0, 0, 1000000, " +
                                       std::to_string(calls_) + ", " + std::to_string(calls_) +
                                       ", 0, 1, 'finished', NULL, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL");
    Execute(database_, sql_);
    return Make(options);
  }
  AheadReport Ahead() {
    report_ = Made();
    EXPECT_TRUE(report_.processes.at(0).ahead.has_value());
    return report_.processes.at(0).ahead.value_or(AheadReport());
  }

  Report report_;

 private:
  static std::string Common(int64_t call, int64_t start, int64_t end, const WorkOptions& more) {
    return std::to_string(start) + ", " + std::to_string(end) + ", 0, " + std::to_string(more.context) + ", NULL, " +
           std::to_string(more.number) + ", " + std::to_string(call) + ", " + std::to_string(kGlobalPid);
  }

  std::string sql_;
  std::map<std::string, int64_t> texts_;
  int64_t calls_ = 0;
  int64_t steps_ = 0;
  bool has_period_ = false;
};

}  // namespace slipstream::report
