// The clock that durations and ages are taken with.
//
// Threading: any thread.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace slipstream::cuda {

// Nanoseconds since some moment; never goes back.
inline uint64_t NowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// The same clock, some milliseconds behind and cheaper to read.
inline uint64_t CoarseNowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace slipstream::cuda
