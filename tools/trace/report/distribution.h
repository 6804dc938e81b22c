// Sums and ranks of times in nanoseconds.
//
// Threading: pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/trace/db/bounded.h"

namespace slipstream::report {

using trace_db::Sum;
inline void AddTo(int64_t* sum, int64_t value) { *sum = Sum(*sum, value); }

// Which power of two a size begins with; -1: nothing.
inline int ExponentOf(int64_t bytes) {
  return bytes <= 0 ? -1 : static_cast<int>(std::bit_width(static_cast<uint64_t>(bytes))) - 1;
}

// Every rank is the value of one of them: the one at rank ceil(share * count), counted from 1 in ascending order. So
// the median of an even number of steps is the lower of the middle two, and the time of a step that there was.
struct Distribution {
  size_t count = 0;
  int64_t total = 0;
  int64_t min = 0;
  int64_t p10 = 0;
  int64_t median = 0;
  int64_t p90 = 0;
  int64_t max = 0;

  double mean() const { return count == 0 ? 0 : static_cast<double>(total) / static_cast<double>(count); }
};

Distribution DistributionOf(std::vector<int64_t> values);

// Whether two of them differ beyond their spread: the median of neither lies between the other's p10 and p90.
bool Differ(const Distribution& a, const Distribution& b);

// Of `values`, the index of the median above; the first of several equal ones. `values` may not be empty.
size_t IndexOfMedian(const std::vector<int64_t>& values);

}  // namespace slipstream::report
