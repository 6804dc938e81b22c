// The time of a step that stands for a run.
//
// A mean takes in every burst of a busy neighbor; a median of single steps leaves out what really happens in some of
// them. So the steps are cut into blocks of consecutive ones, each block has its mean, and the median of these counts:
// what disturbs fewer than half of the blocks does not move it.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace slipstream::compare {

inline constexpr size_t kBlocks = 10;
inline constexpr size_t kLeastInBlock = 3;  // fewer steps than kBlocks times as many have their mean

// `times`: of the measured steps in their order, in any unit; not empty. Steps that do not fill a block are left out
// at the beginning, which is nearest to the warm-up.
double TypicalStep(const std::vector<double>& times);

}  // namespace slipstream::compare
