// Which side runs when, and how long all of it takes.
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream::compare {

// The sides of a pair in their order: A B, B A, A B, ... If the number of pairs is even, a steady change of the machine
// (it warms up, a neighbor leaves) then adds as much to one side as to the other.
std::array<size_t, 2> OrderOf(size_t pair);

// The same in an order of chance, which nothing on the machine can keep step with: of every kBlockOfPairs pairs, and of
// those that are left at the end, each side is first in half. A steady change adds as much to either, as above. If
// their number is odd, chance says which side is first once more. The same `seed`: the same orders, on any machine.
inline constexpr size_t kBlockOfPairs = 8;
std::vector<std::array<size_t, 2>> RandomOrders(size_t pairs, uint32_t seed);

// Seconds that are left: of runs that are still to come, at the mean of those that were, less what the current one has
// had. 0 if not known.
double SecondsLeft(size_t done_runs, double done_seconds, size_t all_runs, double current_seconds);

// Whether one more pair fits into `budget` seconds (0: there is none) after `elapsed`, at the mean of `runs` runs in
// `run_seconds`.
bool FitsBudget(double budget, double elapsed, size_t runs, double run_seconds);

}  // namespace slipstream::compare
