// What is kept of the last seconds: intervals, steps, and waits that were skipped.

#include <gtest/gtest.h>

#include <vector>

#include "tests/top/top_testing.h"
#include "tools/trace/top/ahead_watch.h"
#include "tools/trace/top/busy_time.h"
#include "tools/trace/top/step_history.h"

namespace slipstream::top {
namespace {

TEST(BusyTimeTest, TheUnionOfWhatOverlapsInAnyOrder) {
  BusyTime busy;
  busy.Add(50, 60);
  busy.Add(10, 20);
  busy.Add(15, 30);
  busy.Settle(0);
  busy.Add(30, 35);  // touches
  busy.Add(12, 14);  // inside
  busy.Add(55, 54);  // ends before it begins
  busy.Settle(0);
  EXPECT_EQ(busy.Within(0, 100), 35U);
  EXPECT_EQ(busy.Within(20, 52), 17U);
  EXPECT_EQ(busy.Within(36, 49), 0U);
  busy.Settle(40);
  EXPECT_EQ(busy.Within(0, 100), 10U);
}

TEST(BusyTimeTest, RemembersNoMoreThanItMay) {
  BusyTime busy;
  for (uint64_t i = 0; i < BusyTime::kMost + 100; ++i) busy.Add(10 * i, 10 * i + 5);
  busy.Settle(0);
  EXPECT_EQ(busy.known_from(), 1000U);
  EXPECT_EQ(busy.Within(busy.known_from(), ~uint64_t{0}), 5 * BusyTime::kMost);
}

TEST(StepHistoryTest, MedianAndRanksOfTheLastSteps) {
  StepHistory steps;
  EXPECT_FALSE(steps.Look());
  uint64_t now = 1000;
  for (uint64_t i = 1; i <= 200; ++i) {  // the last 64: 137 to 200
    steps.Add(now, now + i);
    now += 2 * i;
  }
  steps.Add(now, now - 1);  // no step
  const auto view = steps.Look();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->seen, 200U);
  EXPECT_EQ(view->of, 64U);
  EXPECT_EQ(view->last_ns, 200U);
  EXPECT_EQ(view->median_ns, 169U);
  EXPECT_EQ(view->p95_ns, 197U);
  // Six parts, of 10 and 11 steps: 137 to 146, 147 to 157, 158 to 168, 169 to 178, 179 to 189, 190 to 200.
  EXPECT_EQ(view->trend_ns, (std::vector<uint64_t>{142, 152, 163, 174, 184, 195}));
}

TEST(StepHistoryTest, FewStepsHaveNoTrend) {
  StepHistory steps;
  for (uint64_t i = 0; i < 11; ++i) steps.Add(10 * i, 10 * i + 5);
  EXPECT_TRUE(steps.Look()->trend_ns.empty());
  steps.Add(200, 205);
  EXPECT_EQ(steps.Look()->trend_ns, std::vector<uint64_t>(6, 5));
}

TEST(StepHistoryTest, StepsInAWindowByParts) {
  StepHistory steps;
  steps.Add(100, 200);
  steps.Add(200, 300);
  EXPECT_DOUBLE_EQ(*steps.Between(150, 300), 1.5);
  EXPECT_DOUBLE_EQ(*steps.Between(0, 1000), 2);
  EXPECT_DOUBLE_EQ(*steps.Between(300, 400), 0);
}

AheadWatch::Call Launch(uint64_t start_ms, uint32_t correlation) {
  return {.thread = 1,
          .start_ns = start_ms * kMs,
          .end_ns = start_ms * kMs + kMs / 2,
          .stream = 7,
          .correlation = correlation,
          .kind = report::CallKind::kLaunch,
          .names_its_stream = true};
}
AheadWatch::Call SkippedWait(uint64_t start_ms) {
  return {.thread = 1,
          .start_ns = start_ms * kMs,
          .end_ns = start_ms * kMs + kMs / 2,
          .stream = 7,
          .kind = report::CallKind::kSynchronize,
          .makes_it_return = true,
          .skips_a_wait = true};
}
AheadWatch::Call Other(uint64_t end_ms) { return {.thread = 1, .start_ns = end_ms * kMs - 1, .end_ns = end_ms * kMs}; }
AheadWatch::Work Kernel(uint32_t correlation, uint64_t end_ms) {
  return {.correlation = correlation, .context = 1, .stream = 13, .end_ns = end_ms * kMs};
}

// The wait at 1000.5 ms would have lasted until 1300: the host was ahead for 299.5 ms of the second that was looked at.
TEST(AheadWatchTest, FromTheSkippedWaitToTheEndOfTheWork) {
  AheadWatch watch;
  EXPECT_FALSE(watch.Look(10'000 * kMs));
  watch.Add(Other(900));
  watch.Add(Launch(999, 5));
  watch.Add(SkippedWait(1000));
  watch.Add(Other(1900));
  watch.Advance(2000 * kMs);
  EXPECT_FALSE(watch.Look(10'000 * kMs)) << "the launch waits for its work to be recorded";
  watch.Add(Kernel(5, 1300));
  watch.Advance(2000 * kMs);
  const auto view = watch.Look(10'000 * kMs);
  ASSERT_TRUE(view);
  EXPECT_NEAR(view->share, 0.2995, 1e-9);
  EXPECT_EQ(view->skipped, 1U);
  EXPECT_EQ(view->unknown, 0U);
  watch.Restart();
  EXPECT_FALSE(watch.Look(10'000 * kMs));
}

TEST(AheadWatchTest, WorkThatNeverComesIsNotWaitedForForever) {
  AheadWatch watch;
  watch.Add(Other(900));
  watch.Add(Launch(999, 5));
  watch.Add(SkippedWait(1000));
  watch.Add(Other(1900));
  watch.Advance(999 * kMs + AheadWatch::kPatienceNs + kMs);
  const auto view = watch.Look(10'000 * kMs);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->share, 0);
  EXPECT_EQ(view->unknown, 1U) << "nobody has seen work on that stream";
}

// Two waits for the same work save it once.
TEST(AheadWatchTest, AMomentCountsOnce) {
  AheadWatch watch;
  watch.Add(Kernel(5, 1300));
  watch.Add(Other(900));
  watch.Add(Launch(999, 5));
  watch.Add(SkippedWait(1000));
  watch.Add(SkippedWait(1001));
  watch.Add(Other(1900));
  watch.Advance(2000 * kMs);
  const auto view = watch.Look(10'000 * kMs);
  ASSERT_TRUE(view);
  EXPECT_NEAR(view->share, 0.299, 1e-3);
  EXPECT_EQ(view->skipped, 2U);
}

}  // namespace
}  // namespace slipstream::top
