// Who is told what a pool of device memory does.
//
// Threading: the functions are called from any thread, inside the program's calls: no lock, no allocation. None is
// null, but where it says so.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "allocator/decision.h"

namespace slipstream::allocator {

// The figures of a device's pool, in bytes and counts.
struct PoolFigures {
  uint64_t live_bytes = 0;    // in the program's hands, of the blocks that the pool knows
  uint64_t idle_bytes = 0;    // kept for it, those of parked blocks included
  uint64_t parked_bytes = 0;  // of blocks that were not yet seen to be free of work
  uint64_t peak_idle_bytes = 0;
  uint64_t trims = 0;    // blocks given back because nobody wanted them
  uint64_t retries = 0;  // allocations tried again after idle blocks were given back
  // These two only where Reports::wants_more says so; nothing: not asked, or not known.
  std::optional<uint64_t> device_used{};   // of the device's memory, by anybody, as the driver says it
  std::optional<uint64_t> largest_idle{};  // bytes of the largest idle block
};

struct Reports {
  void (*decided)(Decision decision, uint64_t bytes);
  // What the pool of a device holds now: seldom, and whenever much has changed.
  void (*holds)(CUdevice device, const PoolFigures& figures);
  // Whether the next figures of the device are to have what has to be asked for: seldom true.
  bool (*wants_more)(CUdevice device);
  // A decision that is about time, in nanoseconds. This one may be null: nobody counts.
  void (*timed)(Decision decision, uint64_t time_ns) = nullptr;
};

}  // namespace slipstream::allocator
