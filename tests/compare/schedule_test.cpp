#include "tools/compare/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "tools/compare/ratio.h"

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

// So often as the first of a pair.
size_t FirstPlaces(const std::vector<std::array<size_t, 2>>& orders, size_t from, size_t to, size_t side) {
  size_t count = 0;
  for (size_t i = from; i < to; ++i) {
    EXPECT_EQ(orders[i][0] + orders[i][1], 1U) << "each side is in every pair";
    count += orders[i][0] == side ? 1 : 0;
  }
  return count;
}

TEST(ScheduleTest, ChanceSaysWhoIsFirstAndEachIsAsOften) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const auto orders = RandomOrders(20, seed);
    ASSERT_EQ(orders.size(), 20U);
    EXPECT_EQ(orders, RandomOrders(20, seed)) << "a comparison can be repeated";
    EXPECT_EQ(FirstPlaces(orders, 0, 8, 0), 4U) << seed;
    EXPECT_EQ(FirstPlaces(orders, 8, 16, 0), 4U) << seed;
    EXPECT_EQ(FirstPlaces(orders, 16, 20, 0), 2U) << seed;
    const size_t of_nine = FirstPlaces(RandomOrders(9, seed), 0, 9, 0);
    EXPECT_TRUE(of_nine == 4 || of_nine == 5) << seed;
  }
  EXPECT_TRUE(RandomOrders(0, 1).empty());
}

// All 70 ways to be first in four of eight come up, about as often: 140 times each of 9,800, with a standard deviation
// of 11.7.
TEST(ScheduleTest, AllOrdersComeUp) {
  std::map<std::string, int> seen;
  for (uint32_t seed = 0; seed < 9800; ++seed) {
    std::string order;
    for (const auto& pair : RandomOrders(8, seed)) order += pair[0] == 0 ? 'A' : 'B';
    ++seen[order];
  }
  EXPECT_EQ(seen.size(), 70U);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 140, 5 * 11.7) << order;
}

// A neighbor that comes and goes in step with the runs, slow in the first and the last of every four: with A B, B A it
// meets A in every pair, and one program would be told apart from itself every time.
TEST(ScheduleTest, NothingKeepsStepWithTheOrder) {
  const auto alarms = [](size_t pairs, bool in_turn, uint32_t comparisons) {
    std::mt19937 random(1);
    std::normal_distribution<double> noise(0, 0.002);
    int different = 0;
    for (uint32_t seed = 0; seed < comparisons; ++seed) {
      const auto orders = RandomOrders(pairs, seed);
      std::vector<FigurePair> figures(pairs);
      for (size_t run = 0; run < 2 * pairs; ++run) {
        const size_t side = in_turn ? OrderOf(run / 2)[run % 2] : orders[run / 2][run % 2];
        figures[run / 2][side].value = std::exp(noise(random)) * (run % 4 == 0 || run % 4 == 3 ? 1.1 : 1);
      }
      different += EstimateRatio(figures, /*higher_is_better=*/false).different ? 1 : 0;
    }
    return static_cast<double>(different) / comparisons;
  };
  EXPECT_EQ(alarms(8, true, 50), 1) << "what this is about";
  // Of the 70 orders of eight pairs two are A B, B A, ... and B A, A B, ...: 2.9 % is the worst that there is.
  EXPECT_LE(alarms(8, false, 2000), 0.04);
  EXPECT_LE(alarms(16, false, 2000), 0.02);
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
