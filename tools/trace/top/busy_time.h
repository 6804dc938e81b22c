// The union of intervals over the last seconds: how long something was going on at all. Intervals may overlap and come
// in nearly any order.
//
// Memory: the intervals of the last seconds, those that touch put together, kMost at most.
// Threading: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream::top {

class BusyTime {
 public:
  static constexpr size_t kMost = size_t{1} << 18;

  void Add(uint64_t start_ns, uint64_t end_ns);
  // Forgets what ended before, and puts together what was added.
  void Settle(uint64_t oldest_ns);
  // Of what has been settled, between these. What was forgotten for want of room is missing before known_from().
  uint64_t Within(uint64_t from_ns, uint64_t to_ns) const;
  uint64_t known_from() const { return known_from_; }

 private:
  struct Interval {
    uint64_t start;
    uint64_t end;
  };
  std::vector<Interval> all_;    // ascending; no two of them touch
  std::vector<Interval> added_;  // since the last Settle
  uint64_t known_from_ = 0;
};

}  // namespace slipstream::top
