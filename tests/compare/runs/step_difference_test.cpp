// How much longer a step is, with intervals worked out by hand from tables of Student's t.

#include "tools/compare/runs/step_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream::compare {
namespace {

// Each of `times` so often.
std::vector<int64_t> Each(size_t count, const std::vector<int64_t>& times) {
  std::vector<int64_t> all;
  for (const int64_t time : times) all.insert(all.end(), count, time);
  return all;
}

TEST(BlockMeansTest, NineStepsAreTheLeast) {
  EXPECT_TRUE(BlockMeans({}).empty());
  EXPECT_TRUE(BlockMeans(Each(8, {5})).empty());
  EXPECT_EQ(BlockMeans({1, 2, 3, 4, 5, 6, 7, 8, 9}), (std::vector<double>{2, 5, 8}));
}

TEST(BlockMeansTest, EveryStepIsInOne) {
  // Three blocks of 4, 4 and 3.
  EXPECT_EQ(BlockMeans({1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300}), (std::vector<double>{2.5, 25, 200}));
  // 22 steps are seven times three, and one more, which the first block takes.
  std::vector<int64_t> times = Each(1, {40, 0, 0, 0});
  const std::vector<int64_t> rest = Each(3, {2, 3, 4, 5, 6, 7});
  times.insert(times.end(), rest.begin(), rest.end());
  EXPECT_EQ(BlockMeans(times), (std::vector<double>{10, 2, 3, 4, 5, 6, 7}));
}

TEST(BlockMeansTest, TenAtTheMost) {
  EXPECT_EQ(BlockMeans(Each(1000, {7})), std::vector<double>(10, 7));
  EXPECT_EQ(BlockMeans(Each(3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

// Logarithms of the blocks: equally far apart on one side, all alike on the other. With d = ln 1.1 the deviation of the
// first is d, and the standard error d / sqrt(3) with 2 degrees; t(0.995, 2) = 9.924843.
TEST(CompareStepsTest, OneSideSpreads) {
  const StepDifference found = CompareSteps(Each(3, {100, 110, 121}), Each(3, {200, 200, 200}));
  EXPECT_DOUBLE_EQ(found.first, 331.0 / 3);
  EXPECT_DOUBLE_EQ(found.second, 200);
  EXPECT_EQ(found.first_blocks, 3U);
  EXPECT_EQ(found.second_blocks, 3U);
  ASSERT_TRUE(found.has_interval);
  EXPECT_EQ(found.degrees, 2U);
  const double half = 9.924843 * std::log(1.1) / std::sqrt(3.0);
  EXPECT_NEAR(found.low, 331.0 / 3 * (std::exp(std::log(200.0 / 110) - half) - 1), 1e-3);
  EXPECT_NEAR(found.high, 331.0 / 3 * (std::exp(std::log(200.0 / 110) + half) - 1), 1e-3);
  EXPECT_TRUE(found.different);
}

// Both spread alike: the degrees of both add up to 4; t(0.995, 4) = 4.604095.
TEST(CompareStepsTest, BothSpread) {
  const StepDifference found = CompareSteps(Each(3, {100, 110, 121}), Each(3, {200, 220, 242}));
  EXPECT_EQ(found.degrees, 4U);
  const double half = 4.604095 * std::log(1.1) * std::sqrt(2.0 / 3);
  EXPECT_NEAR(found.low, 331.0 / 3 * (2 * std::exp(-half) - 1), 1e-3);
  EXPECT_NEAR(found.high, 331.0 / 3 * (2 * std::exp(half) - 1), 1e-3);
  EXPECT_DOUBLE_EQ(found.difference(), 331.0 / 3);
  EXPECT_TRUE(found.different);
}

// The variances of the means are as 4 to 1, of 3 blocks each: 1 / (0.64 / 2 + 0.04 / 2) = 2.94 degrees, rounded down.
TEST(CompareStepsTest, DegreesAreRoundedDown) {
  EXPECT_EQ(CompareSteps(Each(3, {10'000, 12'100, 14'641}), Each(3, {10'000, 11'000, 12'100})).degrees, 2U);
}

TEST(CompareStepsTest, NoDifferenceWhereTheIntervalHoldsZero) {
  const StepDifference found = CompareSteps(Each(3, {100, 110, 121}), Each(3, {112, 112, 112}));
  ASSERT_TRUE(found.has_interval);
  EXPECT_LT(found.low, 0);
  EXPECT_GT(found.high, 0);
  EXPECT_FALSE(found.different);
}

TEST(CompareStepsTest, FasterIsADifferenceToo) {
  const StepDifference found = CompareSteps(Each(3, {200, 200, 201}), Each(3, {100, 100, 101}));
  EXPECT_TRUE(found.different);
  EXPECT_LT(found.low, found.difference());
  EXPECT_LT(found.difference(), found.high);
  EXPECT_LT(found.high, 0);
}

TEST(CompareStepsTest, ARunIsNotDifferentFromItself) {
  for (const std::vector<int64_t>& times : {Each(3, {100, 110, 121, 90}), Each(13, {77}), Each(1, {77, 78, 79})}) {
    const StepDifference found = CompareSteps(times, times);
    EXPECT_EQ(found.difference(), 0);
    EXPECT_FALSE(found.different);
  }
  // As many blocks or not, steps that are all alike are no difference.
  EXPECT_FALSE(CompareSteps(Each(9, {123'457}), Each(31, {123'457})).different);
}

TEST(CompareStepsTest, TooFewStepsMakeNoInterval) {
  const StepDifference found = CompareSteps(Each(4, {100, 110}), Each(3, {200, 200, 200}));
  EXPECT_DOUBLE_EQ(found.first, 105);
  EXPECT_DOUBLE_EQ(found.difference(), 95);
  EXPECT_EQ(found.first_blocks, 0U);
  EXPECT_EQ(found.second_blocks, 3U);
  EXPECT_FALSE(found.has_interval);
  EXPECT_FALSE(found.different);
}

}  // namespace
}  // namespace slipstream::compare
