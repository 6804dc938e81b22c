// What people and scripts read at the end of a run.

#include "tools/cli/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tools/text/json_bytes.h"

namespace slipstream::cli {
namespace {

tracer::ProcessCounts Process(int pid, std::vector<tracer::FunctionCounts> functions) {
  tracer::ProcessCounts process;
  process.pid = pid;
  process.executable = "python3";
  process.facts = {{"runtime", "13000 /lib/libcudart.so.13"}, {"allocator", "off: reason"}};
  process.functions = std::move(functions);
  process.copies = {{"host_to_device", 2, 4096}, {"device_to_host", 0, 0}};
  return process;
}

TEST(SummaryTest, TotalsMatchByNameNotByPosition) {
  const tracer::ProcessCounts total =
      Total({Process(1, {{"a", "copy", true, 1, 0, 10, 100}, {"b", "free", true, 2, 1, 0, 5}}),
             Process(2, {{"b", "free", true, 3, 0, 0, 6}, {"c", "copy", true, 4, 0, 1, 1}})});
  ASSERT_EQ(total.functions.size(), 3U);
  EXPECT_EQ(total.functions[1].name, "b");
  EXPECT_EQ(total.functions[1].calls, 5U);
  EXPECT_EQ(total.functions[1].errors, 1U);
  EXPECT_EQ(total.functions[1].time_ns, 11U);
  EXPECT_EQ(total.copies[0].bytes, 8192U);
}

TEST(SummaryTest, DecisionsOfAllProcessesAreSummedByName) {
  RunSummary summary;
  summary.processes = {Process(1, {{"a", "copy", true, 1, 0, 10, 100}}), Process(2, {})};
  summary.processes[0].facts.push_back({"transfer", "serves: host to device"});
  summary.processes[1].facts.push_back({"transfer", "serves: host to device"});
  summary.processes[0].decisions = {{"transfer.h2d.promoted.small", 1, 8, 1}, {"transfer.sync.skipped", 1, 0, 2}};
  summary.processes[1].decisions = {{"transfer.h2d.declined.full", 4, 0, 0}, {"transfer.h2d.promoted.small", 2, 16, 3}};
  const tracer::ProcessCounts total = Total(summary.processes);
  ASSERT_EQ(total.decisions.size(), 3U);
  EXPECT_EQ(total.decisions[0].name, "transfer.h2d.promoted.small");
  EXPECT_EQ(total.decisions[0].count, 3U);
  EXPECT_EQ(total.decisions[0].bytes, 24U);
  EXPECT_EQ(total.decisions[0].time_ns, 4U);
  EXPECT_EQ(total.decisions[2].name, "transfer.h2d.declined.full");

  const std::string text = FormatSummary(summary);
  EXPECT_NE(text.find("\n  transfer: serves: host to device\n"
                      "            promoted 3 copies to the device, 24 B: small\n"
                      "            declined 4 copies to the device: while all staging memory was in\n"
                      "              flight\n"
                      "            skipped 1 of 1 synchronization\n"),
            std::string::npos)
      << text;
  // Without a line of its own about itself the engine's name stands in front of what it did.
  for (tracer::ProcessCounts& process : summary.processes) process.facts.clear();
  const std::string bare = FormatSummary(summary);
  EXPECT_NE(bare.find("\n  transfer: promoted 3 copies to the device, 24 B: small\n            declined"),
            std::string::npos)
      << bare;
}

TEST(SummaryTest, JsonHoldsTheDecisionsThatWereTaken) {
  RunSummary summary;
  summary.processes = {Process(1, {}), Process(2, {})};
  summary.processes[0].decisions = {{"transfer.h2d.promoted.small", 1, 8, 1}, {"transfer.sync.skipped", 0, 0, 0}};
  summary.processes[1].decisions = {{"transfer.h2d.promoted.small", 2, 16, 3}};
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_EQ(json["processes"][0]["decisions"],
            (nlohmann::json{{"transfer.h2d.promoted.small", {{"count", 1}, {"bytes", 8}, {"time_ns", 1}}}}));
  EXPECT_EQ(json["totals"]["decisions"],
            (nlohmann::json{{"transfer.h2d.promoted.small", {{"count", 3}, {"bytes", 24}, {"time_ns", 4}}}}));
  summary.processes.clear();
  EXPECT_TRUE(nlohmann::json::parse(SummaryJson(summary))["totals"]["decisions"].is_object());
}

TEST(SummaryTest, JsonOfTotalsHasNoProcesses) {
  RunSummary summary;
  summary.processes = {Process(1, {{"a", "copy", true, 1, 0, 10, 100}}),
                       Process(2, {{"a", "copy", true, 2, 0, 10, 100}})};
  const auto json = nlohmann::json::parse(SummaryJson(summary, SummaryHas::kTotals));
  EXPECT_EQ(json["processes"], nlohmann::json::array());
  EXPECT_EQ(json["totals"]["functions"][0]["calls"], 3);
}

TEST(SummaryTest, MemoryOfEachDeviceStandsBelowTheAllocator) {
  RunSummary summary;
  summary.processes = {Process(1, {{"a", "copy", true, 1, 0, 10, 100}})};
  summary.processes[0].facts = {{"allocator", "serves: reason"}};
  summary.processes[0].decisions = {{"allocator.parked", 2, 8, 0}};
  summary.processes[0].memory = {
      {1, 100, {.device = 0, .live_bytes = 1 << 20}},
      {2, 200, {.device = 0, .live_bytes = 2 << 20, .idle_bytes = 3 << 20, .peak_idle_bytes = 4 << 20}}};
  const std::string text = FormatSummary(summary);
  EXPECT_NE(text.find("\n  allocator: serves: reason\n"
                      "             kept 2 of 2 freed blocks, 8 B\n"
                      "             device 0: 2.00 MiB live, 3.00 MiB idle at the end, 4.00 MiB at most\n"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  const auto& memory = json["processes"][0]["memory"];
  ASSERT_EQ(memory.size(), 2U);
  EXPECT_EQ(memory[1]["idle_bytes"], 3 << 20);
  EXPECT_EQ(memory[1]["time_ns"], 200);
  summary.processes.push_back(summary.processes[0]);
  EXPECT_NE(FormatSummary(summary).find("             python3 (pid 1), device 0: 2.00 MiB live"), std::string::npos);
}

TEST(SummaryTest, MoreFunctionsThanFitAreSummedInALine) {
  std::vector<tracer::FunctionCounts> functions;
  for (int i = 0; i < 20; ++i) {
    functions.push_back({"f" + std::to_string(i), "copy", true, 1, 0, 0, static_cast<uint64_t>(1000 - i)});
  }
  RunSummary summary;
  summary.processes = {Process(1, functions)};
  const std::string text = FormatSummary(summary);
  EXPECT_NE(text.find("8 more functions"), std::string::npos) << text;
  EXPECT_EQ(text.find("f12 "), std::string::npos) << text;
  EXPECT_NE(text.find("f11 "), std::string::npos) << text;
}

TEST(SummaryTest, JsonHoldsWhatWasCalledAndSurvivesStrangeBytes) {
  RunSummary summary;
  summary.command = "py\xff";
  summary.exit_status = 137;
  summary.processes = {
      Process(7, {{"cudaMalloc", "allocate", true, 2, 0, 64, 9}, {"cudaFree", "free", true, 0, 0, 0, 0}})};
  const auto json = text::ParseBytes(SummaryJson(summary));
  EXPECT_EQ(json["schema"], kSummarySchema);
  EXPECT_EQ(json["command"], summary.command);
  EXPECT_EQ(json["exit_status"], 137);
  ASSERT_EQ(json["totals"]["functions"].size(), 1U);
  EXPECT_EQ(json["totals"]["functions"][0]["name"], "cudaMalloc");
  EXPECT_EQ(json["totals"]["functions"][0]["bytes"], 64);
  EXPECT_EQ(json["totals"]["copies"].size(), 1U);
  EXPECT_TRUE(json["processes"][0]["rank"].is_null());
  EXPECT_EQ(json["processes"][0]["runtimes"][0]["version"], 13000);
  EXPECT_EQ(json["processes"][0]["facts"]["allocator"], "off: reason");
}

TEST(SummaryTest, FilesThatCannotBeReadAreNamed) {
  RunSummary summary;
  summary.command = "x";
  summary.problems = {"f.counters: truncated counter file"};
  EXPECT_NE(FormatSummary(summary).find("slipstream: f.counters: truncated"), std::string::npos);
}

TEST(SummaryTest, NoCountersAskedForNoneShown) {
  RunSummary summary;
  summary.command = "x";
  summary.counters_off = true;
  EXPECT_EQ(FormatSummary(summary), "");
}

}  // namespace
}  // namespace slipstream::cli
