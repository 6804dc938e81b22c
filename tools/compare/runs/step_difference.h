// How much longer a step of one recorded run takes than one of another, and how sure that is.
//
// Steps of one run are no independent measurements: clocks drift, neighbors come in bursts. So the steps of each run
// are cut into blocks of consecutive ones, and the logarithm of a block's mean is one measurement. The interval is that
// of Welch's t test of the two sets of them, which does not take the runs to spread alike.
//
// It is about these two runs. How much two runs of one program differ, no single pair of them can tell.
//
// Threading: pure functions.
// Times are ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream::compare {

inline constexpr size_t kLeastBlocks = 3;  // of kLeastInBlock steps (blocks.h); fewer make no interval

// The means of blocks of consecutive steps: kBlocks, or as many as have kLeastInBlock steps. Every step is in one, and
// their lengths differ by one at most, the longer ones first. Empty: fewer than kLeastBlocks.
std::vector<double> BlockMeans(const std::vector<int64_t>& times);

struct StepDifference {
  double first = 0;  // mean of all steps
  double second = 0;
  size_t first_blocks = 0;  // 0: too few steps
  size_t second_blocks = 0;
  bool has_interval = false;
  size_t degrees = 0;  // of freedom: Welch and Satterthwaite's, rounded down
  double low = 0;      // of the difference, with kConfidence (ratio.h)
  double high = 0;
  bool different = false;  // the interval does not hold 0

  double difference() const { return second - first; }
};

// Of the measured steps of each run, in their order; neither is empty.
StepDifference CompareSteps(const std::vector<int64_t>& first, const std::vector<int64_t>& second);

}  // namespace slipstream::compare
