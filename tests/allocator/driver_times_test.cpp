#include "allocator/driver_times.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace slipstream::allocator {
namespace {

TEST(DriverTimesTest, NothingIsKnownOfAFewCalls) {
  DriverTimes times;
  EXPECT_EQ(times.FastestNs(), 0U);
  for (uint32_t i = 1; i < DriverTimes::kEnough; ++i) times.Took(500);
  EXPECT_EQ(times.FastestNs(), 0U);
  times.Took(700);
  EXPECT_EQ(times.FastestNs(), 500U);
  times.Took(300);
  times.Took(900);
  EXPECT_EQ(times.FastestNs(), 300U);
}

TEST(DriverTimesTest, TheFastestOfAllThreads) {
  DriverTimes times;
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&times, t] {
      for (uint64_t i = 1'000; i != 0; --i) times.Took(100 * i + t);
    });
  }
  threads.clear();
  EXPECT_EQ(times.FastestNs(), 100U);
}

}  // namespace
}  // namespace slipstream::allocator
