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
            "slipstream: gained: about 1.04 ms in 10 allocations and 9 frees (estimated);\n"
            "            to measure it: slipstream compare -- COMMAND\n");
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
  EXPECT_EQ(FormatGains(gains),
            "slipstream: gained: about 2.00 us in 1 free (estimated);\n"
            "            to measure it: slipstream compare -- COMMAND\n");
}

TEST(SummaryGainsTest, WhatCountersDoNotTellIsSaidToBeUnknown) {
  for (const char* const decision : {"transfer.h2d.promoted.small", "transfer.d2h.promoted", "transfer.sync.skipped",
                                     "transfer.h2d.mirrored", "transfer.host.reused"}) {
    EXPECT_EQ(FormatGains(GainsOf({AllocatingProcess(0, 0, {{decision, 1, 0, 0}})})),
              "slipstream: gained: not known; to measure it: slipstream compare -- COMMAND\n")
        << decision;
    EXPECT_EQ(FormatGains(GainsOf({AllocatingProcess(0, 0, {{decision, 0, 0, 0}})})), "") << decision;
  }
  const tracer::ProcessCounts copies = AllocatingProcess(0, 0, {{"transfer.sync.skipped", 3, 0, 0}});
  EXPECT_EQ(FormatGains(GainsOf({copies, Known()})),
            "slipstream: gained: about 1.04 ms in 10 allocations and 9 frees (estimated), and\n"
            "            in copies what is not known;\n"
            "            to measure it: slipstream compare -- COMMAND\n");
}

TEST(SummaryGainsTest, TheSummaryHasThem) {
  const RunSummary summary = SummaryOf({Known()});
  EXPECT_TRUE(FormatSummary(summary).starts_with(FormatGains(GainsOf(summary.processes))));
  EXPECT_EQ(nlohmann::json::parse(SummaryJson(summary))["gains"],
            (nlohmann::json{{"estimated_ns", 1'040'000},
                            {"allocations", {{"calls", 10}, {"ns", 970'000}}},
                            {"frees", {{"calls", 9}, {"ns", 70'000}}}}));
}

}  // namespace
}  // namespace slipstream::cli
