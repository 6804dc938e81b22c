// A stream as a heap knows it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace slipstream::allocator {

// The per-thread default stream is one stream for each thread.
struct StreamName {
  CUstream stream = nullptr;  // as the driver takes it; CU_STREAM_PER_THREAD is the calling thread's
  uint64_t id = 0;            // no two streams with the same handle have it, now or later (S38)
  bool operator==(const StreamName&) const = default;
};

}  // namespace slipstream::allocator
