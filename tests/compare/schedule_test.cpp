#include "tools/compare/schedule.h"

#include <gtest/gtest.h>

namespace slipstream::compare {
namespace {

TEST(ScheduleTest, NeitherSideIsAlwaysFirst) {
  EXPECT_EQ(OrderOf(0), (std::array<size_t, 2>{0, 1}));
  EXPECT_EQ(OrderOf(1), (std::array<size_t, 2>{1, 0}));
  EXPECT_EQ(OrderOf(2), OrderOf(0));
  // A machine that gets slower by the same amount with each run takes as much from both.
  std::array<size_t, 2> places{};
  size_t place = 0;
  for (size_t pair = 0; pair < 6; ++pair) {
    for (const size_t side : OrderOf(pair)) places[side] += place++;
  }
  EXPECT_EQ(places[0], places[1]);
}

TEST(ScheduleTest, WhatIsLeft) {
  EXPECT_EQ(SecondsLeft(0, 0, 14, 3), 0) << "nobody knows";
  EXPECT_EQ(SecondsLeft(2, 20, 14, 0), 120);
  EXPECT_EQ(SecondsLeft(2, 20, 14, 4), 116);
  EXPECT_EQ(SecondsLeft(2, 20, 14, 40), 110);
  EXPECT_EQ(SecondsLeft(13, 130, 14, 4), 6);
}

TEST(ScheduleTest, ABudget) {
  EXPECT_TRUE(FitsBudget(0, 1e9, 2, 20)) << "none";
  EXPECT_TRUE(FitsBudget(100, 80, 2, 20));
  EXPECT_FALSE(FitsBudget(100, 81, 2, 20));
  EXPECT_TRUE(FitsBudget(100, 0, 0, 0));
}

}  // namespace
}  // namespace slipstream::compare
