// The clock that durations are taken with.
//
// Threading: any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace slipstream::transfer {

// Nanoseconds since some moment; never goes back.
inline uint64_t NowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace slipstream::transfer
