// What a run gained, from made-up counters.

#include "tools/cli/summary_gains.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/summary.h"

namespace slipstream::cli {
namespace {

tracer::ProcessCounts AllocatingProcess(uint64_t in_malloc_ns, uint64_t in_free_ns,
                                        std::vector<tracer::DecisionCounts> decisions) {
  tracer::ProcessCounts process;
  process.pid = 1;
  process.executable = "python3";
  process.functions = {{"cudaMalloc", "allocate", true, 14, 0, 64, in_malloc_ns},
                       {"cudaFree", "free", true, 9, 0, 0, in_free_ns}};
  process.decisions = std::move(decisions);
  return process;
}

// Four allocations of the driver took 800 us of the 830 us in cudaMalloc, so ten that were served took at most 30 us;
// as many of the driver's fastest ones, 1 ms.
tracer::ProcessCounts Known() {
  return AllocatingProcess(830'000, 20'000,
                           {{"allocator.reused", 10, 0, 0},
                            {"allocator.driver.allocated", 4, 0, 800'000},
                            {"allocator.spared.allocation", 10, 0, 1'000'000},
                            {"allocator.spared.free", 9, 0, 90'000}});
}

RunSummary SummaryOf(std::vector<tracer::ProcessCounts> processes) {
  RunSummary summary;
  summary.command = "python3";
  summary.exit_status = 0;
  summary.processes = std::move(processes);
  return summary;
}

TEST(SummaryGainsTest, TheDriversFastestCallsLessWhatTheServedOnesTook) {
  const SummaryGains gains = GainsOf({Known()});
  EXPECT_EQ(gains.allocations.calls, 10U);
  EXPECT_EQ(gains.allocations.time_ns, 970'000U);
  EXPECT_EQ(gains.frees.calls, 9U);
  EXPECT_EQ(gains.frees.time_ns, 70'000U);
  EXPECT_EQ(FormatGains(gains),
            "  gained: about 1.04 ms of host time in 10 allocations and 9 frees that the pool served (estimated)\n");
}

TEST(SummaryGainsTest, EachProcessForItself) {
  // Its pool took longer than the driver would have, which is no loss of the other one's.
  const tracer::ProcessCounts slow =
      AllocatingProcess(5'000'000, 100'000,
                        {{"allocator.spared.allocation", 10, 0, 1'000'000}, {"allocator.spared.free", 1, 0, 100'000}});
  const SummaryGains gains = GainsOf({Known(), slow, Known()});
  EXPECT_EQ(gains.allocations.calls, 20U);
  EXPECT_EQ(gains.allocations.time_ns, 1'940'000U);
  EXPECT_EQ(gains.frees.calls, 18U);
  EXPECT_EQ(gains.frees.time_ns, 140'000U);
}

TEST(SummaryGainsTest, WhereNothingIsKnownNothingIsSaid) {
  const RunSummary summary = SummaryOf({AllocatingProcess(100, 100, {{"allocator.reused", 10, 0, 0}})});
  EXPECT_EQ(FormatGains(GainsOf(summary.processes)), "");
  EXPECT_EQ(FormatSummary(summary).find("gained"), std::string::npos);
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  ASSERT_TRUE(json.contains("gains"));
  EXPECT_TRUE(json["gains"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(SummaryJson(SummaryOf({})))["gains"].is_null());
}

TEST(SummaryGainsTest, OneSortOnly) {
  const SummaryGains gains = GainsOf({AllocatingProcess(0, 0, {{"allocator.spared.free", 1, 0, 2'000}})});
  EXPECT_EQ(FormatGains(gains), "  gained: about 2.00 us of host time in 1 free that the pool served (estimated)\n");
}

TEST(SummaryGainsTest, TheSummaryHasThem) {
  const RunSummary summary = SummaryOf({Known()});
  EXPECT_NE(FormatSummary(summary).find("\n" + FormatGains(GainsOf(summary.processes))), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(SummaryJson(summary))["gains"],
            (nlohmann::json{{"estimated_ns", 1'040'000},
                            {"allocations", {{"calls", 10}, {"ns", 970'000}}},
                            {"frees", {{"calls", 9}, {"ns", 70'000}}}}));
}

}  // namespace
}  // namespace slipstream::cli
