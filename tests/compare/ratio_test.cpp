#include "tools/compare/ratio.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

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

// By hand: mean ln 1.25, standard deviation 0.02, t of two degrees 9.924843.
TEST(RatioTest, TheInterval) {
  const double middle = std::log(1.25);
  const Estimate estimate = EstimateRatio(Pairs({middle - 0.02, middle + 0.02, middle}), false);
  const double half = 9.924843 * 0.02 / std::sqrt(3);
  EXPECT_EQ(estimate.pairs, 3U);
  EXPECT_NEAR(estimate.ratio, 1.25, 1e-12);
  EXPECT_NEAR(estimate.median, 1.25, 1e-12);
  EXPECT_NEAR(estimate.low, 1.25 * std::exp(-half), 1e-6);
  EXPECT_NEAR(estimate.high, 1.25 * std::exp(half), 1e-6);
  EXPECT_TRUE(estimate.different);
  // t of two degrees, one-sided 80 %: 1.060660
  EXPECT_NEAR(estimate.seen, std::expm1(half + 1.060660 * 0.02 / std::sqrt(3)), 1e-6);
  // t * 0.02 / sqrt(n) <= ln 1.01 = 0.00995: 2.7564 of 29 degrees gives 0.01007, 2.7500 of 30 gives 0.00988.
  EXPECT_EQ(estimate.pairs_for_aim, 31U);
  // (t + t80) * 0.02 / sqrt(n) <= ln 1.03 = 0.02956: (3.7074 + 0.9057) of 6 degrees gives 0.03487, (3.4995 + 0.8960)
  // of 7 gives 0.03108, (3.3554 + 0.8889) of 8 gives 0.02830.
  EXPECT_EQ(estimate.pairs_to_see[0], 9U);
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

// What "99 %" promises: of many comparisons with this truth, so many intervals hold it. Seeded.
double ShareThatHolds(size_t pairs, double confidence, const std::function<double()>& noise) {
  constexpr int kComparisons = 3000;
  constexpr double kTruth = 0.03;
  int held = 0;
  for (int i = 0; i < kComparisons; ++i) {
    std::vector<double> logs(pairs);
    for (double& value : logs) value = kTruth + noise();
    const Estimate estimate = EstimateRatio(Pairs(logs), false, confidence);
    held += estimate.low <= std::exp(kTruth) && std::exp(kTruth) <= estimate.high ? 1 : 0;
  }
  return static_cast<double>(held) / kComparisons;
}

TEST(RatioTest, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 0.02);
  const auto noise = [&] { return normal(random); };
  EXPECT_NEAR(ShareThatHolds(3, 0.95, noise), 0.95, 0.012);
  EXPECT_NEAR(ShareThatHolds(8, 0.99, noise), 0.99, 0.006);
  // Ranks are steps: at most what is said may lie outside, and little less.
  for (const size_t pairs : {10U, 24U}) EXPECT_NEAR(ShareThatHolds(pairs, 0.99, noise), 0.9915, 0.0055) << pairs;
}

// A shared host: of one run in ten a neighbor takes half of the speed, on whichever side it falls.
TEST(RatioTest, ItHoldsOnANoisyHostAndRanksAreNarrowerThere) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal(0, 0.01);
  std::bernoulli_distribution disturbed(0.1);
  const auto run = [&] { return normal(random) + (disturbed(random) ? std::log(2.0) : 0); };
  const auto noise = [&] { return run() - run(); };
  for (const size_t pairs : {8U, 12U}) EXPECT_GE(ShareThatHolds(pairs, 0.99, noise), 0.985) << pairs;
  // Twenty-four pairs that are 3 % apart, four of them ruined: two on each side.
  std::vector<double> logs;
  for (int i = 0; i < 24; ++i) logs.push_back(0.03 + normal(random));
  logs[3] += 0.7, logs[9] -= 0.7, logs[15] += 0.7, logs[21] -= 0.7;
  const Estimate estimate = EstimateRatio(Pairs(logs), false);
  EXPECT_TRUE(estimate.different) << estimate.low << " to " << estimate.high;
  EXPECT_NEAR(estimate.ratio, std::exp(0.03), 0.01);
}

// Of the published tables of Wilcoxon's signed ranks, two-sided 1 %: the largest sum that is still beyond, and one
// value more lies beyond than that sum says.
TEST(RatioTest, RanksBeyondAreThoseOfTheTables) {
  const std::vector<std::pair<size_t, size_t>> table = {{8, 0},   {9, 1},   {10, 3},  {12, 7},
                                                        {15, 15}, {20, 37}, {25, 68}, {50, 373}};
  for (const auto& [count, sum] : table) EXPECT_EQ(RanksBeyond(count, 0.99), sum) << count;
  // Where the approximation begins it goes on from what is exact.
  const std::array<size_t, 3> near = {RanksBeyond(59, 0.99), RanksBeyond(60, 0.99), RanksBeyond(61, 0.99)};
  EXPECT_NEAR(static_cast<double>(near[2] - near[1]), static_cast<double>(near[1] - near[0]), 3);
}

// By hand: ten pairs; the interval ends at the fourth of the sorted means of every two.
TEST(RatioTest, TheIntervalOfRanks) {
  const std::vector<double> logs = {0.00, 0.10, 0.20, 0.30, 0.40, 0.50, 0.60, 0.70, 0.80, 0.90};
  const Estimate estimate = EstimateRatio(Pairs(logs), false);
  // Means: 0, 0.05, 0.10 (of 0 and 0.2), 0.10 (itself), ...
  EXPECT_NEAR(std::log(estimate.low), 0.10, 1e-9);
  EXPECT_NEAR(std::log(estimate.high), 0.80, 1e-9);
  EXPECT_NEAR(std::log(estimate.ratio), 0.45, 1e-9);
}

TEST(RatioTest, WhetherTheSecondIsSlowerByMoreThanALimit) {
  // 5 % longer, give or take: the interval is that of the logarithms.
  const double middle = -std::log(1.05);
  const Estimate estimate = EstimateRatio(Pairs({middle - 0.001, middle, middle + 0.001}), false);
  const double half = 9.924843 * 0.001 / std::sqrt(3);  // 0.005730
  EXPECT_EQ(WhetherSlower(estimate, 1.05 * std::exp(-half) - 1 - 1e-6), Slower::kShown);
  EXPECT_EQ(WhetherSlower(estimate, 1.05 * std::exp(-half) - 1 + 1e-6), Slower::kUnknown);
  EXPECT_EQ(WhetherSlower(estimate, 1.05 * std::exp(half) - 1 - 1e-6), Slower::kUnknown);
  EXPECT_EQ(WhetherSlower(estimate, 1.05 * std::exp(half) - 1 + 1e-6), Slower::kNot);
  EXPECT_EQ(WhetherSlower(EstimateRatio(Pairs({0.02, 0.02, 0.02}), false), 0), Slower::kNot) << "faster";
  const Estimate few = EstimateRatio(Pairs({middle, middle}), false);
  EXPECT_EQ(WhetherSlower(few, 0.03), Slower::kUnknown);
  EXPECT_EQ(PairsToTell(few, 0.03), std::nullopt);
}

// By hand: ln(1.05 / 1.03) = 0.01923 is what the interval and its reach may come to, with a deviation of 0.02:
// (2.8982 + 0.8633) of 17 degrees by sqrt(18) gives 0.01773, (2.9208 + 0.8647) of 16 by sqrt(17) 0.01836, (2.9467 +
// 0.8662) of 15 by sqrt(16) 0.01906, (2.9768 + 0.8681) of 14 by sqrt(15) 0.01985.
TEST(RatioTest, PairsThatWouldTell) {
  const double middle = -std::log(1.05);
  const Estimate estimate = EstimateRatio(Pairs({middle - 0.02, middle, middle + 0.02}), false);
  EXPECT_EQ(WhetherSlower(estimate, 0.03), Slower::kUnknown);
  EXPECT_EQ(PairsToTell(estimate, 0.03), 16U);
  EXPECT_EQ(PairsToTell(estimate, 0.05), std::nullopt) << "just that: no pairs tell";
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
