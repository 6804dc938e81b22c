// What the pool of one device holds, as the allocator reports it and a counter file keeps it.
//
// Threading: plain data.
#pragma once

#include <cstdint>
#include <optional>

namespace slipstream::tracer {

// Bytes and counts.
struct MemoryFigures {
  int32_t device = 0;
  uint64_t live_bytes = 0;    // in the program's hands
  uint64_t idle_bytes = 0;    // freed by it and kept, parked blocks included
  uint64_t parked_bytes = 0;  // of these, not yet known to be free of work
  uint64_t peak_idle_bytes = 0;
  uint64_t trims = 0;    // blocks given back because nobody wanted them
  uint64_t retries = 0;  // allocations tried again after idle blocks were given back
  // Only in a trace, and there in few readings.
  std::optional<uint64_t> device_used{};   // of the device's memory, by anybody, as the driver says it
  std::optional<uint64_t> largest_idle{};  // bytes of the largest idle block; in a trace whole KiB
};

}  // namespace slipstream::tracer
