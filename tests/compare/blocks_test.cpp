#include "tools/compare/blocks.h"

#include <gtest/gtest.h>

namespace slipstream::compare {
namespace {

TEST(BlocksTest, FewStepsHaveTheirMean) {
  EXPECT_DOUBLE_EQ(TypicalStep({2}), 2);
  std::vector<double> times(29, 1.0);
  times[3] = 30;
  EXPECT_DOUBLE_EQ(TypicalStep(times), 2);  // (28 + 30) / 29
}

// Thirty-one steps: the first is left out, blocks of three.
TEST(BlocksTest, ABurstInFewerThanHalfOfTheBlocksDoesNotCount) {
  std::vector<double> times(31, 1.0);
  times[0] = 1000;
  for (size_t step = 10; step < 22; ++step) times[step] = 50;  // four blocks of ten
  EXPECT_DOUBLE_EQ(TypicalStep(times), 1);
  for (size_t step = 10; step < 31; ++step) times[step] = 50;  // seven
  EXPECT_DOUBLE_EQ(TypicalStep(times), 50);
}

// What comes back in every block is part of the step: the median of single steps would be 1.
TEST(BlocksTest, WhatComesBackInEveryBlockCounts) {
  std::vector<double> times;
  for (int step = 0; step < 30; ++step) times.push_back(step % 3 == 0 ? 4 : 1);
  EXPECT_DOUBLE_EQ(TypicalStep(times), 2);
}

}  // namespace
}  // namespace slipstream::compare
