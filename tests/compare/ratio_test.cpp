#include "tools/compare/ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace slipstream::compare {
namespace {

FigurePair Pair(double a, double b, double rounding = 0) { return {Figure{a, rounding}, Figure{b, rounding}}; }

// Pairs with these logarithms of the speed ratio, by times.
std::vector<FigurePair> Pairs(const std::vector<double>& logs) {
  std::vector<FigurePair> pairs;
  for (const double value : logs) pairs.push_back(Pair(10 * std::exp(value), 10));
  return pairs;
}

TEST(RatioTest, WhichWayIsFaster) {
  EXPECT_DOUBLE_EQ(SpeedRatio(Pair(10, 5), /*higher_is_better=*/false), 2);
  EXPECT_DOUBLE_EQ(SpeedRatio(Pair(10, 5), /*higher_is_better=*/true), 0.5);
  const Estimate times = EstimateRatio({Pair(10, 5), Pair(10, 5), Pair(10, 5)}, false);
  EXPECT_DOUBLE_EQ(times.ratio, 2);
  EXPECT_TRUE(times.different);
  EXPECT_GT(times.low, 1);
}

// By hand: mean ln 1.25, standard deviation 0.02, t of two degrees 4.302653.
TEST(RatioTest, TheInterval) {
  const double middle = std::log(1.25);
  const Estimate estimate = EstimateRatio(Pairs({middle - 0.02, middle + 0.02, middle}), false);
  const double half = 4.302653 * 0.02 / std::sqrt(3);
  EXPECT_EQ(estimate.pairs, 3U);
  EXPECT_NEAR(estimate.ratio, 1.25, 1e-12);
  EXPECT_NEAR(estimate.median, 1.25, 1e-12);
  EXPECT_NEAR(estimate.low, 1.25 * std::exp(-half), 1e-6);
  EXPECT_NEAR(estimate.high, 1.25 * std::exp(half), 1e-6);
  EXPECT_TRUE(estimate.different);
  // t of two degrees, one-sided 80 %: 1.060660
  EXPECT_NEAR(estimate.seen, std::expm1(half + 1.060660 * 0.02 / std::sqrt(3)), 1e-6);
  // 1.96 * 0.02 / sqrt(n) = ln 1.01 at n = 15.5; Student's t asks for two more.
  EXPECT_EQ(estimate.pairs_for_aim, 18U);
}

TEST(RatioTest, AFactorOnBothRunsOfAPairFallsOut) {
  const Estimate estimate = EstimateRatio({Pair(10, 8), Pair(100, 80), Pair(1, 0.8)}, false);
  EXPECT_NEAR(estimate.low, 1.25, 1e-9);
  EXPECT_NEAR(estimate.high, 1.25, 1e-9);
}

TEST(RatioTest, FewerThanThreePairsClaimNothing) {
  for (const auto& pairs : {std::vector<FigurePair>{}, {Pair(10, 1)}, {Pair(10, 1), Pair(10, 1)}}) {
    const Estimate estimate = EstimateRatio(pairs, false);
    EXPECT_FALSE(estimate.has_interval) << pairs.size();
    EXPECT_FALSE(estimate.different) << pairs.size();
  }
}

TEST(RatioTest, NoDifferenceIsSaidWhenOneIsWithin) {
  EXPECT_FALSE(EstimateRatio(Pairs({0.02, -0.01, 0.01}), false).different);
  EXPECT_TRUE(EstimateRatio(Pairs({0.02, 0.021, 0.019}), false).different);
  EXPECT_TRUE(EstimateRatio(Pairs({-0.02, -0.021, -0.019}), false).different);
}

// Three times 107 and 108 may be three times 107.5 and 107.5.
TEST(RatioTest, PrintedDigitsLimitWhatCanBeSaid) {
  const std::vector<FigurePair> coarse(3, Pair(107, 108, 0.5));
  EXPECT_FALSE(EstimateRatio(coarse, true).different);
  EXPECT_TRUE(EstimateRatio(coarse, true).coarse);
  const std::vector<FigurePair> fine(3, Pair(107, 108, 0.05));
  EXPECT_TRUE(EstimateRatio(fine, true).different);
  EXPECT_FALSE(EstimateRatio(Pairs({0.02, 0.021, 0.019}), false).coarse);
}

TEST(RatioTest, MorePairsThanAnybodyRuns) {
  EXPECT_EQ(EstimateRatio(Pairs({1, -1, 0.5, -0.5}), false).pairs_for_aim, std::nullopt);
  EXPECT_EQ(EstimateRatio(Pairs({0.1, 0.1, 0.1}), false).pairs_for_aim, kLeastPairs);
}

TEST(RatioTest, APairFarFromTheOthersIsNamedAndCounted) {
  const Estimate estimate = EstimateRatio(Pairs({0.010, 0.011, 0.5, 0.009, 0.010}), false);
  EXPECT_EQ(estimate.far, (std::vector<size_t>{2}));
  EXPECT_NEAR(std::log(estimate.ratio), 0.108, 1e-9);
  EXPECT_NEAR(std::log(estimate.median), 0.010, 1e-9);
  EXPECT_TRUE(EstimateRatio(Pairs({0.010, 0.011, 0.5}), false).far.empty()) << "of three, who is to say which";
}

// What "95 %" promises: of many comparisons with this truth, so many intervals hold it. Seeded.
TEST(RatioTest, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  constexpr int kComparisons = 3000;
  constexpr double kTruth = 0.03;
  std::mt19937 random(1);
  std::normal_distribution<double> noise(kTruth, 0.02);
  for (const size_t pairs : {3U, 6U}) {
    int held = 0;
    for (int i = 0; i < kComparisons; ++i) {
      std::vector<double> logs(pairs);
      for (double& value : logs) value = noise(random);
      const Estimate estimate = EstimateRatio(Pairs(logs), false);
      held += estimate.low <= std::exp(kTruth) && std::exp(kTruth) <= estimate.high ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(held) / kComparisons, 0.95, 0.012) << pairs;
  }
}

TEST(RatioTest, Spreads) {
  const Spread odd = SpreadOf({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.share(), 1);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(SpreadOf({7}).share(), 0);
}

}  // namespace
}  // namespace slipstream::compare
