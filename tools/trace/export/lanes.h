// Distributes the slices of a stream over lanes. A track's slices may nest but not overlap otherwise, and work on a
// stream may overlap (the nodes of a graph, a kernel that starts before the previous one has ended). Each slice gets
// the first lane that has room for it.
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream::trace_export {

class Lanes {
 public:
  // Of a slice. `nests`: it may lie within another one. A lane knows what is open in it and not what has ended, so a
  // slice that starts before the last one of a lane is not put there.
  size_t Take(int64_t start, int64_t end, bool nests) {
    size_t lane = 0;
    while (lane < lanes_.size() && !lanes_[lane].Fits(start, end, nests)) ++lane;
    if (lane == lanes_.size()) lanes_.emplace_back();
    lanes_[lane].start = start;
    lanes_[lane].open.push_back(end);
    return lane;
  }

 private:
  struct Lane {
    bool Fits(int64_t next_start, int64_t next_end, bool nests) {
      if (next_start < start) return false;
      while (!open.empty() && open.back() <= next_start) open.pop_back();
      return open.empty() || (nests && next_end <= open.back());
    }

    int64_t start = 0;          // of the last one
    std::vector<int64_t> open;  // ends; innermost last
  };

  std::vector<Lane> lanes_;
};

}  // namespace slipstream::trace_export
