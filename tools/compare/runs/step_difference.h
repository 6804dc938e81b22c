// How much longer a step of one recorded run takes than one of another, and how sure that is.
//
// Steps of one run are no independent measurements: clocks drift, neighbors come in bursts. So the steps of each run
// are cut into blocks of consecutive ones, whose means still depend on each other where the steps do over more than a
// block. How many independent blocks they are worth is taken from the correlation of neighboring blocks, and of fewer
// than kLeastEffective nothing is claimed. The interval is Welch's, which does not take the runs to spread alike.
//
// How much two runs of one program differ beyond their steps, no single pair of them can tell. It is assumed, as the
// floor, and stands in the interval beside what the steps tell.
//
// Threading: pure functions.
// Times are ns, shares are of the first run's step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/compare/ratio.h"

namespace slipstream::compare {

inline constexpr size_t kMostBlocks = 20;  // of kLeastInBlock steps (blocks.h) at least
inline constexpr double kLeastEffective = 3;
// A share that the steps of two runs of one program differ by at most, 99 times of 100. Four processes each of three
// trainings on one H200 (docs/results/h200-steady-eb05385.json, bare): the logarithms of their median steps have a
// standard deviation of 0.52 %, so those of two differ by 2.576 * sqrt(2) * 0.52 % = 1.9 %.
inline constexpr double kFloor = 0.02;

// The means of blocks of consecutive steps: kMostBlocks, or as many as have kLeastInBlock steps. Every step is in one,
// and their lengths differ by one at most, the longer ones first. Empty: fewer steps than one block.
std::vector<double> BlockMeans(const std::vector<int64_t>& times);

// How many independent blocks have a mean that is as uncertain as the mean of these, whose neighbors are taken to
// depend on each other as in an autoregressive process of the first order. From 1 to their number; 0: there is none.
double EffectiveBlocks(const std::vector<double>& means);

struct StepDifference {
  double first = 0;  // mean of all steps
  double second = 0;
  size_t first_blocks = 0;
  size_t second_blocks = 0;
  double first_effective = 0;  // EffectiveBlocks()
  double second_effective = 0;
  double floor = kFloor;
  bool has_interval = false;
  size_t degrees = 0;    // of freedom: Welch and Satterthwaite's, rounded down
  double low_share = 0;  // of the difference, as a share of the first, with kConfidence (ratio.h)
  double high_share = 0;
  double steps_half = 0;   // half of the interval of the logarithm of the ratio, without the floor
  bool different = false;  // the interval does not hold 0

  double difference() const { return second - first; }
  double share() const { return first > 0 ? difference() / first : 0; }
  double low() const { return first * low_share; }
  double high() const { return first * high_share; }
};

// Of the measured steps of each run, in their order; neither is empty. `floor`: a share, 0 or more.
StepDifference CompareSteps(const std::vector<int64_t>& first, const std::vector<int64_t>& second,
                            double floor = kFloor);

// Whether a step of the second run takes more than 1 + `limit` times as long. Not known without an interval.
Slower WhetherSlower(const StepDifference& step, double limit);

// How many times as long both runs would have to be for an interval that does not hold `limit`, if all else stays as it
// is. Nothing: the floor alone reaches as far, at any length, or there is no interval.
std::optional<double> LengthToTell(const StepDifference& step, double limit);

}  // namespace slipstream::compare
