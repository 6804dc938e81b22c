// One driver allocation that the pool knows: live in the program's hands, or idle in a free list.
//
// Threading: `state` says whose the block is. Live: nobody reads the rest but whoever frees it. In a free list: whoever
// holds the list's lock. In between it is the thread's that took it.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/fences.h"

namespace slipstream::allocator {

class DevicePool;

enum class BlockState : uint8_t {
  kLive,  // the program's
  kIdle,  // freed by the program, kept by us
};

struct Block {
  CUdeviceptr address = 0;
  size_t bytes = 0;           // as the driver was asked for them
  unsigned long long id = 0;  // the driver's, unique in the process: another allocation at this address has another one
  DevicePool* pool = nullptr;  // of the device that the memory is on
  std::atomic<BlockState> state{BlockState::kLive};
  std::atomic<bool> shared{false};  // exported to another process: never used again (S33)

  // While idle: behind all work before the free that could have used the block (S30).
  Fences fences;
  bool passed = false;  // they were seen to have
  uint64_t idle_since_ns = 0;
  // In place of a time: made in advance and never used, so it does not grow old, and goes only where memory is short.
  static constexpr uint64_t kNeverOld = UINT64_MAX - 1;
  Block* next = nullptr;  // in a free list
  uint8_t shard = 0;      // of the lists that it was put in
};

}  // namespace slipstream::allocator
