// Whether what several threads saw of one piece of memory can be explained by some order of their whole operations,
// each at one moment between its call and its return.
//
// Every write has a value of its own, which makes that easy to say: the operations of one value, its write and the
// reads that found it, lie together in any such order. From the first return among them to the last call they must be
// at one place: no two values may claim the same moment so, and none may have all of its time inside another one's
// claim.
// Source: Gibbons and Korach, "Testing Shared Memories", SIAM Journal on Computing 26 (1997).
//
// Threading: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace slipstream::test {

class RegisterHistory {
 public:
  // From `begin` to `end`, in any unit that is the same for all threads. The memory holds 0 before everything.
  void Wrote(int value, uint64_t begin, uint64_t end) { values_[value].Add(begin, end, true); }
  void Read(int value, uint64_t begin, uint64_t end) { values_[value].Add(begin, end, false); }

  // Empty: there is such an order. Else what contradicts it.
  std::string Contradiction() {
    values_[0].Add(0, 0, true);
    for (const auto& [value, all] : values_) {
      if (!all.written) return "read " + std::to_string(value) + ", which nobody wrote";
      if (all.first_read_end < all.write_begin) return "read " + std::to_string(value) + " before it was written";
    }
    for (const auto& [one, a] : values_) {
      for (const auto& [other, b] : values_) {
        // Whether b's claim overlaps a's, or all of its time lies inside it.
        if (one == other || !a.Claims() || a.first_end >= b.last_begin || b.first_end >= a.last_begin) continue;
        return "found " + std::to_string(one) + " before and behind " + std::to_string(other);
      }
    }
    return {};
  }

 private:
  struct Value {
    bool written = false;
    uint64_t write_begin = 0;
    uint64_t first_read_end = UINT64_MAX;
    uint64_t first_end = UINT64_MAX;
    uint64_t last_begin = 0;

    void Add(uint64_t begin, uint64_t end, bool writes) {
      first_end = std::min(first_end, end);
      last_begin = std::max(last_begin, begin);
      if (writes) {
        written = true;
        write_begin = begin;
      } else {
        first_read_end = std::min(first_read_end, end);
      }
    }
    // It holds the memory from first_end to last_begin.
    bool Claims() const { return first_end < last_begin; }
  };

  std::map<int, Value> values_;
};

}  // namespace slipstream::test
