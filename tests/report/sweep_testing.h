// What tests of sweeps share: something that happened in a run, and the order in which a sweep is told of it.
//
// Threading: none of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/trace/report/sweep.h"

namespace slipstream::report {

struct Event {
  enum Sort { kOwnCall, kOtherCall, kKernel, kCopy } sort = kOwnCall;
  int64_t start = 0;
  int64_t end = 0;
  CallKind kind = CallKind::kOther;
  size_t site = 0;
  size_t device = 0;
  int64_t blocks = 0;
  bool communicates = false;

  bool Covers(int64_t t) const { return start <= t && t < end; }
};

// In the order in which they come first: by start, the longer one before the shorter one, then as they were given.
inline void Sort(std::vector<Event>* events) {
  std::stable_sort(events->begin(), events->end(), [](const Event& a, const Event& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
}

}  // namespace slipstream::report
