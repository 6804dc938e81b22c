// Which names of ranges are those of steps.

#include "tools/trace/db/step_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace slipstream::trace_db {
namespace {

// "base number", "base -", or "none".
std::string Of(std::string_view text) {
  const auto name = StepNameOf(text);
  if (!name) return "none";
  return name->base + " " + (name->number ? std::to_string(*name->number) : "-");
}

TEST(StepNamesTest, AsProfilersAndPeopleWriteThem) {
  EXPECT_EQ(Of("ProfilerStep#12"), "profilerstep 12");
  EXPECT_EQ(Of("step"), "step -");
  EXPECT_EQ(Of("Step 7"), "step 7");
  EXPECT_EQ(Of("step_0"), "step 0");
  EXPECT_EQ(Of("STEP-3"), "step 3");
  EXPECT_EQ(Of("train_step"), "train step -");
  EXPECT_EQ(Of("Training Step: 100"), "training step 100");
  EXPECT_EQ(Of("iteration18446744073709551615"), "iteration 18446744073709551615");
  EXPECT_EQ(Of("iter=5"), "iter 5");
}

TEST(StepNamesTest, WhatIsNone) {
  for (const char* text : {"", "7", "#7", "Optimizer.step#Adam.step", "steps", "step one", "forward", "stepping 1",
                           "iteration 184467440737095516160", "epoch 3", "step 1 of 7"}) {
    EXPECT_EQ(Of(text), "none") << text;
  }
  EXPECT_EQ(Of(std::string(1000, ' ') + "step"), "none");
}

// "1" for each that is a step, "0" for each that is none.
std::string Steps(const std::vector<RangeTimes>& ranges) {
  std::string text;
  for (const bool is_step : StepsAmong(ranges)) text += is_step ? '1' : '0';
  return text;
}

TEST(StepsAmongTest, TheOutermostAre) {
  EXPECT_EQ(Steps({}), "");
  EXPECT_EQ(Steps({{0, 10}}), "1");
  EXPECT_EQ(Steps({{0, 10}, {10, 20}, {20, 30}}), "111");
  EXPECT_EQ(Steps({{1, 2}, {0, 10}, {11, 12}, {10, 20}}), "0101");
  // Deeper ones, and an iteration that has none.
  EXPECT_EQ(Steps({{2, 3}, {1, 5}, {0, 10}, {11, 12}, {10, 20}, {20, 30}}), "001011");
  // Of two with the same times, the one that ended last.
  EXPECT_EQ(Steps({{0, 10}, {0, 10}, {10, 20}}), "011");
  // Across each other: neither lies in the other.
  EXPECT_EQ(Steps({{0, 10}, {5, 15}, {12, 20}}), "111");
}

TEST(StepsAmongTest, OneAroundAllIsNone) {
  EXPECT_EQ(Steps({{0, 10}, {10, 20}, {20, 30}, {0, 30}}), "1110");
  // The same, with something in each step, and with a step before it.
  EXPECT_EQ(Steps({{1, 2}, {0, 10}, {11, 12}, {10, 20}, {21, 22}, {20, 30}, {0, 30}}), "0101010");
  EXPECT_EQ(Steps({{0, 10}, {10, 20}, {20, 30}, {30, 40}, {10, 40}}), "11110");
  // Two of them.
  EXPECT_EQ(Steps({{0, 10}, {10, 20}, {20, 30}, {0, 30}, {0, 31}}), "11100");
  // Two iterations of four each: none has more than half of the others.
  EXPECT_EQ(Steps({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}, {5, 10}}), "0000100001");
  // A step with one within it is no loop of one.
  EXPECT_EQ(Steps({{1, 2}, {0, 10}}), "01");
}

// Takes no time by the square of their number.
TEST(StepsAmongTest, OneAroundVeryMany) {
  std::vector<RangeTimes> ranges;
  for (uint64_t i = 0; i < 200'000; ++i) ranges.push_back({10 * i, 10 * i + 10});
  ranges.push_back({0, 2'000'000});
  const std::vector<bool> steps = StepsAmong(ranges);
  EXPECT_EQ(std::count(steps.begin(), steps.end(), true), 200'000);
  EXPECT_FALSE(steps.back());
}

}  // namespace
}  // namespace slipstream::trace_db
