// Limits untrusted numbers: of a database, to bounds in which their sums and differences fit.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace slipstream::trace_db {

// A year, there and back.
inline int64_t BoundedTime(int64_t ns) {
  constexpr int64_t kMost = int64_t{1} << 55;
  return std::clamp(ns, -kMost, kMost);
}
// Of something that begins at `start`: not before it.
inline int64_t BoundedEnd(int64_t start, int64_t end) { return std::max(start, BoundedTime(end)); }

// Of bytes, blocks, threads: 16 tebi of them at most, and none below zero.
inline int64_t BoundedCount(int64_t count) { return std::clamp(count, int64_t{0}, int64_t{1} << 44); }

// Saturates instead of overflowing: times of a damaged trace may be anything.
inline int64_t Sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// For a database: SQLite's numbers end there; sums over negative sizes would be wrong without a word.
inline int64_t Size(uint64_t bytes) {
  return static_cast<int64_t>(std::min(bytes, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
}

}  // namespace slipstream::trace_db
