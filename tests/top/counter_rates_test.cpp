// Two readings of a counter file, and what is said about what does not go on.

#include "tools/trace/top/counter_rates.h"

#include <gtest/gtest.h>

namespace slipstream::top {
namespace {

using tracer::ProcessCounts;

ProcessCounts Reading(uint64_t calls) {
  ProcessCounts counts;
  counts.pid = 7;
  counts.start_unix_ns = 1000;
  counts.functions = {
      {.name = "cudaMalloc", .group = "", .bound = true, .calls = 3, .errors = 0, .bytes = 30, .time_ns = 300},
      {.name = "cudaStreamSynchronize",
       .group = "",
       .bound = true,
       .calls = calls,
       .errors = calls / 10,
       .bytes = 0,
       .time_ns = calls * 100},
      {.name = "cudaMemcpyAsync",
       .group = "",
       .bound = true,
       .calls = calls * 2,
       .errors = 0,
       .bytes = calls * 64,
       .time_ns = calls}};
  counts.copies = {{.kind = "host_to_host"}, {.kind = "host_to_device", .calls = calls, .bytes = calls * 64}};
  counts.decisions = {{.name = "transfer.sync.skipped", .count = calls, .bytes = 1, .time_ns = 5}};
  return counts;
}

TEST(CounterRatesTest, DifferencesOfTwoReadings) {
  const auto view = RatesBetween(Reading(100), Reading(150), 2'000'000'000);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->seconds, 2);
  EXPECT_EQ(view->total_calls, 3U + 150 + 300);
  EXPECT_EQ(view->all.calls, 150U);
  EXPECT_EQ(view->all.errors, 5U);
  EXPECT_EQ(view->waiting.calls, 50U);
  EXPECT_EQ(view->waiting.time_ns, 5000U);
  EXPECT_EQ(view->kinds[static_cast<size_t>(report::CallKind::kCopy)].bytes, 50U * 64);
  ASSERT_EQ(view->functions.size(), 2U);  // cudaMalloc was not called
  EXPECT_EQ(view->functions[0].name, "cudaStreamSynchronize");
  EXPECT_TRUE(view->functions[0].waits);
  EXPECT_EQ(view->functions[1].sum.calls, 100U);
  ASSERT_EQ(view->copies.size(), 1U);
  EXPECT_EQ(view->copies[0].direction, "host_to_device");
  EXPECT_EQ(view->copies[0].bytes, 50U * 64);
  ASSERT_EQ(view->decisions.size(), 1U);
  EXPECT_EQ(view->decisions[0].count, 50U);
  EXPECT_EQ(view->decisions[0].bytes, 0U);
}

TEST(CounterRatesTest, NothingIsSaidOfWhatGoesBackwards) {
  EXPECT_FALSE(RatesBetween(Reading(150), Reading(100), 1));
  ProcessCounts after = Reading(150);
  after.functions[0].time_ns = 299;
  EXPECT_FALSE(RatesBetween(Reading(100), after, 1));
  after = Reading(150);
  after.copies[1].bytes = 0;
  EXPECT_FALSE(RatesBetween(Reading(100), after, 1));
  after = Reading(150);
  after.decisions[0].time_ns = 4;
  EXPECT_FALSE(RatesBetween(Reading(100), after, 1));
}

TEST(CounterRatesTest, NothingIsSaidOfTwoProcesses) {
  ProcessCounts after = Reading(150);
  after.start_unix_ns = 1001;
  EXPECT_FALSE(RatesBetween(Reading(100), after, 1));
  after = Reading(150);
  after.functions[2].name = "cudaFree";
  EXPECT_FALSE(RatesBetween(Reading(100), after, 1));
  after = Reading(150);
  after.functions.pop_back();
  EXPECT_FALSE(RatesBetween(Reading(100), after, 1));
  EXPECT_FALSE(RatesBetween(Reading(100), Reading(150), 0));
}

TEST(CounterRatesTest, DecisionsThatWereNamedInBetweenCount) {
  ProcessCounts before = Reading(100);
  before.decisions.clear();
  const auto view = RatesBetween(before, Reading(150), 1);
  ASSERT_TRUE(view);
  ASSERT_EQ(view->decisions.size(), 1U);
  EXPECT_EQ(view->decisions[0].count, 150U);
}

}  // namespace
}  // namespace slipstream::top
