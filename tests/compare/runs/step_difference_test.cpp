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

TEST(BlockMeansTest, OfThreeStepsAtLeast) {
  EXPECT_TRUE(BlockMeans({}).empty());
  EXPECT_TRUE(BlockMeans({1, 2}).empty());
  EXPECT_EQ(BlockMeans({1, 2, 3, 4, 5}), (std::vector<double>{3}));
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

TEST(BlockMeansTest, TwentyAtTheMost) {
  EXPECT_EQ(BlockMeans(Each(1000, {7})), std::vector<double>(20, 7));
  EXPECT_EQ(BlockMeans(Each(60, {7})), std::vector<double>(20, 7));
  // Of 61 steps, four to a block.
  EXPECT_EQ(BlockMeans(Each(61, {7})), std::vector<double>(15, 7));
}

// So many values that go up and down around `middle`: neighbors that depend on each other the other way.
std::vector<double> UpAndDown(size_t count, double middle, double by) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(middle + (i % 2 == 0 ? -by : by));
  return values;
}

// By hand, of n values that say nothing of their neighbors: r = 1/n + sqrt((1 - 1/n^2) / n) / 2, and of a sum of powers
// the mean's variance is (1 + r) / (1 - r) / n - 2 r (1 - r^n) / (n^2 (1 - r)^2) times that of one.
TEST(EffectiveBlocksTest, ByHand) {
  EXPECT_EQ(EffectiveBlocks({}), 0);
  EXPECT_DOUBLE_EQ(EffectiveBlocks({5}), 1);
  // r = 0.05 + 0.998749 / sqrt(20) / 2 = 0.161663; 1 / (1.385684 / 20 - 0.323327 / (400 * 0.702808))
  EXPECT_NEAR(EffectiveBlocks(std::vector<double>(20, 7)), 14.68, 0.01);
  // Of eleven products of neighbors eight are 1 and three are -1, and of twelve squares each is 1: 5 / 12 is seen.
  const double corrected = 5.0 / 12 + (1 + 4 * 5.0 / 12) / 12;
  const double r = corrected + std::sqrt((1 - corrected * corrected) / 12) / 2;
  const double share = (1 + r) / (1 - r) / 12 - 2 * r * (1 - std::pow(r, 12)) / (144 * (1 - r) * (1 - r));
  EXPECT_NEAR(EffectiveBlocks({1, 1, 1, -1, -1, -1, 1, 1, 1, -1, -1, -1}), 1 / share, 1e-9);
}

TEST(EffectiveBlocksTest, FromOneToTheirNumber) {
  EXPECT_DOUBLE_EQ(EffectiveBlocks(UpAndDown(20, 100, 1)), 20) << "worth more, which is not believed";
  std::vector<double> line;
  for (int i = 0; i < 20; ++i) line.push_back(100 + i);
  EXPECT_DOUBLE_EQ(EffectiveBlocks(line), 1) << "a run that got slower all the time";
}

// Sixty steps in twenty blocks, whose means are 99 % and 101 % of `middle`, in turn. Each is worth itself; the relative
// variance of the mean is 0.01^2 / 19.
std::vector<int64_t> Steps(int64_t middle, int64_t by) {
  std::vector<int64_t> times;
  for (const double mean : UpAndDown(20, static_cast<double>(middle), static_cast<double>(by))) {
    times.insert(times.end(), 3, static_cast<int64_t>(mean));
  }
  return times;
}

// t(0.995, 19) = 2.860935.
TEST(CompareStepsTest, OneSideSpreads) {
  const StepDifference found = CompareSteps(Steps(100'000, 1000), Each(60, {200'000}), /*floor=*/0);
  EXPECT_DOUBLE_EQ(found.first, 100'000);
  EXPECT_DOUBLE_EQ(found.second, 200'000);
  EXPECT_EQ(found.first_blocks, 20U);
  EXPECT_EQ(found.second_blocks, 20U);
  EXPECT_DOUBLE_EQ(found.first_effective, 20);
  EXPECT_NEAR(found.second_effective, 14.68, 0.01);
  ASSERT_TRUE(found.has_interval);
  EXPECT_EQ(found.degrees, 19U);
  const double half = 2.860935 * 0.01 / std::sqrt(19.0);
  EXPECT_NEAR(found.low_share, 2 * std::exp(-half) - 1, 1e-8);
  EXPECT_NEAR(found.high_share, 2 * std::exp(half) - 1, 1e-8);
  EXPECT_NEAR(found.low(), 100'000 * (2 * std::exp(-half) - 1), 1e-3);
  EXPECT_TRUE(found.different);
}

// Both spread alike: the degrees of both add up to 38; t(0.995, 38) = 2.711558.
TEST(CompareStepsTest, BothSpread) {
  const StepDifference found = CompareSteps(Steps(100'000, 1000), Steps(200'000, 2000), /*floor=*/0);
  EXPECT_EQ(found.degrees, 38U);
  const double half = 2.711558 * 0.01 * std::sqrt(2 / 19.0);
  EXPECT_NEAR(found.low_share, 2 * std::exp(-half) - 1, 1e-8);
  EXPECT_NEAR(found.high_share, 2 * std::exp(half) - 1, 1e-8);
  EXPECT_DOUBLE_EQ(found.difference(), 100'000);
}

// The variances of the means are as 4 to 1, of 19 degrees each: 19 / (0.64 + 0.04) = 27.94.
TEST(CompareStepsTest, DegreesAreRoundedDown) {
  EXPECT_EQ(CompareSteps(Steps(100'000, 2000), Steps(100'000, 1000)).degrees, 27U);
}

// A sum of squares: what the steps tell and what two runs may differ by are independent of each other.
TEST(CompareStepsTest, TheFloorIsInTheInterval) {
  const double half = std::hypot(2.711558 * 0.01 * std::sqrt(2 / 19.0), std::log(1.02));
  const StepDifference found = CompareSteps(Steps(100'000, 1000), Steps(102'000, 1020));
  EXPECT_EQ(found.floor, kFloor);
  EXPECT_NEAR(found.low_share, 1.02 * std::exp(-half) - 1, 1e-8);
  EXPECT_NEAR(found.high_share, 1.02 * std::exp(half) - 1, 1e-8);
  EXPECT_FALSE(found.different) << "2 % may be nothing";
  EXPECT_TRUE(CompareSteps(Steps(100'000, 1000), Steps(102'000, 1020), 0.01).different);
  EXPECT_TRUE(CompareSteps(Steps(100'000, 1000), Steps(103'000, 1030)).different);
  EXPECT_FALSE(CompareSteps(Steps(100'000, 1000), Steps(103'000, 1030), 0.03).different);
  // Where the steps do not spread at all, the floor is all there is.
  EXPECT_NEAR(CompareSteps(Each(60, {1000}), Each(60, {1000})).high_share, 0.02, 1e-12);
  EXPECT_FALSE(CompareSteps(Each(60, {10'000}), Each(60, {10'199})).different);
  EXPECT_TRUE(CompareSteps(Each(60, {10'000}), Each(60, {10'201})).different);
}

TEST(CompareStepsTest, FasterIsADifferenceToo) {
  const StepDifference found = CompareSteps(Steps(200'000, 1000), Steps(100'000, 1000));
  EXPECT_TRUE(found.different);
  EXPECT_LT(found.low(), found.difference());
  EXPECT_LT(found.difference(), found.high());
  EXPECT_LT(found.high(), 0);
}

TEST(CompareStepsTest, ARunIsNotDifferentFromItself) {
  for (const std::vector<int64_t>& times : {Each(9, {100, 110, 121, 90}), Each(22, {77}), Each(20, {77, 78, 79})}) {
    const StepDifference found = CompareSteps(times, times, /*floor=*/0);
    EXPECT_EQ(found.difference(), 0);
    EXPECT_FALSE(found.different);
  }
  // As many blocks or not, steps that are all alike are no difference.
  EXPECT_FALSE(CompareSteps(Each(29, {123'457}), Each(31, {123'457}), /*floor=*/0).different);
}

// No interval is better than a wrong one: twelve steps are four blocks, which could not show how they depend on each
// other; of two hundred that got slower all the time there is one block.
TEST(CompareStepsTest, TooFewIndependentBlocksMakeNoInterval) {
  std::vector<int64_t> slower;
  for (int64_t i = 0; i < 200; ++i) slower.push_back(10'000 + 10 * i);
  for (const std::vector<int64_t>& times : {Each(12, {100}), Each(2, {100}), slower}) {
    const StepDifference found = CompareSteps(times, Steps(200'000, 2000));
    EXPECT_GT(found.difference(), 0);
    EXPECT_LT(found.first_effective, kLeastEffective);
    EXPECT_FALSE(found.has_interval);
    EXPECT_FALSE(found.different);
    EXPECT_EQ(WhetherSlower(found, 0), Slower::kUnknown);
    EXPECT_EQ(LengthToTell(found, 0), std::nullopt);
  }
  EXPECT_TRUE(CompareSteps(Each(22, {100}), Each(22, {200})).has_interval);
}

TEST(CompareStepsTest, WhetherItIsSlowerByMoreThanALimit) {
  const StepDifference found = CompareSteps(Steps(100'000, 1000), Steps(110'000, 1100));
  ASSERT_LT(found.low_share, 0.08);
  ASSERT_GT(found.high_share, 0.12);
  EXPECT_EQ(WhetherSlower(found, 0.07), Slower::kShown);
  EXPECT_EQ(WhetherSlower(found, 0.10), Slower::kUnknown);
  EXPECT_EQ(WhetherSlower(found, 0.13), Slower::kNot);
  EXPECT_EQ(WhetherSlower(CompareSteps(Steps(110'000, 1100), Steps(100'000, 1000)), 0), Slower::kNot);
  // ln(1.10 / 1.08) = 0.018349 is less than ln 1.02: no steps tell. ln(1.10 / 1.077) = 0.021130 leaves them 0.007369 of
  // the 2.711558 * 0.01 * sqrt(2 / 19) = 0.008797 that they take now: 1.425 times as many.
  EXPECT_EQ(LengthToTell(found, 0.08), std::nullopt);
  ASSERT_EQ(WhetherSlower(found, 0.077), Slower::kUnknown);
  EXPECT_NEAR(LengthToTell(found, 0.077).value_or(0), 1.425, 0.01);
}

}  // namespace
}  // namespace slipstream::compare
