// What people and scripts read at the end of a run.

#include "tools/cli/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

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
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_EQ(json["schema"], kSummarySchema);
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
