// The part of a process's life in which its devices are recorded: from a moment on, for a while or to the end.
//
// Threading: plain data and pure functions. Times are CLOCK_MONOTONIC's, or spans of it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace slipstream::tracer {

struct DeviceWindow {
  uint64_t after_ns = 0;
  uint64_t for_ns = 0;  // 0: to the end

  bool Has(uint64_t start_ns, uint64_t now_ns) const {
    const uint64_t passed = Passed(start_ns, now_ns);
    return passed >= after_ns && (for_ns == 0 || passed - after_ns < for_ns);
  }
  // Until it begins or ends; at most `most`.
  uint64_t Wait(uint64_t start_ns, uint64_t now_ns, uint64_t most) const {
    const uint64_t passed = Passed(start_ns, now_ns);
    if (passed < after_ns) return std::min(most, after_ns - passed);
    if (for_ns != 0 && passed - after_ns < for_ns) return std::min(most, after_ns + for_ns - passed);
    return most;
  }

 private:
  static uint64_t Passed(uint64_t start_ns, uint64_t now_ns) { return now_ns > start_ns ? now_ns - start_ns : 0; }
};

}  // namespace slipstream::tracer
