// The clock of every record, and that of files.
#pragma once

#include <time.h>

#include <cstdint>

namespace slipstream::tracer {

// Nanoseconds of CLOCK_MONOTONIC. Read through the vDSO: no system call, about 20 ns. Any thread, any time.
inline uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// The same of CLOCK_REALTIME: since 1970.
inline uint64_t UnixNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace slipstream::tracer
