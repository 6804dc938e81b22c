// How often two recorded runs of one program are told apart, and how often a real difference is found: many comparisons
// of runs that are drawn, with the steps depending on each other as they do on machines, and the runs differing as two
// runs do. Seeded.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tools/compare/runs/step_difference.h"

namespace slipstream::compare {
namespace {

constexpr int kComparisons = 2000;
// An interval of 99 % lets 20 of them be wrong; 41 and more are that in one of 70,000 such tests.
constexpr double kMostFalse = 0.02;

struct Drawn {
  size_t steps = 200;
  double depends = 0;     // correlation of a step with the one before it: an autoregressive process of the first order
  double spread = 0.05;   // standard deviation of a step, a share
  double run_spread = 0;  // of a run's mean, a share
};

class Runs {
 public:
  explicit Runs(unsigned seed) : random_(seed) {}

  std::vector<int64_t> Draw(const Drawn& like, double mean) {
    const double of_run = mean * (1 + like.run_spread * normal_(random_));
    const double fresh = std::sqrt(1 - like.depends * like.depends);
    std::vector<int64_t> times;
    times.reserve(like.steps);
    double at = normal_(random_);
    for (size_t i = 0; i < like.steps; ++i) {
      times.push_back(static_cast<int64_t>(of_run * (1 + like.spread * at)));
      at = like.depends * at + fresh * normal_(random_);
    }
    return times;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

struct Shares {
  double different = 0;
  double has_interval = 0;
};

// Of comparisons with one that is slower by a share.
Shares Compare(const Drawn& like, double slower, double floor) {
  Runs runs(1);
  Shares shares;
  for (int i = 0; i < kComparisons; ++i) {
    const std::vector<int64_t> first = runs.Draw(like, 1e7);
    const StepDifference found = CompareSteps(first, runs.Draw(like, 1e7 * (1 + slower)), floor);
    shares.different += (found.different ? 1.0 : 0.0) / kComparisons;
    shares.has_interval += (found.has_interval ? 1.0 : 0.0) / kComparisons;
  }
  return shares;
}

// Without a floor: what the steps tell holds by itself.
TEST(FalseAlarmsTest, OneProgramIsNotToldApartFromItself) {
  for (const double depends : {0.0, 0.5, 0.9}) {
    for (const size_t steps : {60U, 200U, 1000U}) {
      const Shares found = Compare({.steps = steps, .depends = depends}, 0, /*floor=*/0);
      EXPECT_LE(found.different, kMostFalse) << steps << " steps, correlation " << depends;
      RecordProperty("false_alarms_" + std::to_string(steps) + "_" + std::to_string(depends),
                     std::to_string(found.different) + " of " + std::to_string(found.has_interval));
    }
  }
}

// 60 steps that depend on each other over twenty say nothing, mostly; 200 that do not say something, always.
TEST(FalseAlarmsTest, AnIntervalWhereThereCanBeOne) {
  EXPECT_LT(Compare({60, 0.9}, 0, 0).has_interval, 0.25);
  EXPECT_GT(Compare({200, 0}, 0, 0).has_interval, 0.99);
  EXPECT_GT(Compare({1000, 0.9}, 0, 0).has_interval, 0.95);
}

// Two runs that differ by the floor in one of a hundred cases: the standard deviation of their difference is the floor
// by 2.576. Their steps alone would tell most of them apart.
TEST(FalseAlarmsTest, TheFloorHoldsWhatRunsDifferBy) {
  const Drawn like = {.steps = 1000, .depends = 0.5, .spread = 0.01, .run_spread = kFloor / 2.576 / std::sqrt(2.0)};
  EXPECT_LE(Compare(like, 0, kFloor).different, kMostFalse);
  EXPECT_GT(Compare(like, 0, /*floor=*/0).different, 0.5);
}

TEST(FalseAlarmsTest, ARealDifferenceIsFound) {
  EXPECT_GT(Compare({200, 0}, 0.03, kFloor).different, 0.65);
  EXPECT_GT(Compare({200, 0}, 0.05, kFloor).different, 0.97);
  EXPECT_GT(Compare({200, 0}, -0.05, kFloor).different, 0.97);
  EXPECT_GT(Compare({1000, 0.9}, 0.05, kFloor).different, 0.5);
}

}  // namespace
}  // namespace slipstream::compare
