// One pinned allocation that the pool knows: live in the program's hands, or idle.
//
// Threading: `state` and `device_address_taken` under the pool's lock. A block in between (kTaken) is the thread's that
// took it; what is left is constant while the block is live.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "allocator/fences.h"

namespace slipstream::allocator {

enum class PinnedState : uint8_t {
  kLive,   // the program's
  kTaken,  // some thread's, on its way between the two, or out
  kIdle,   // in a free list
};

// What must be the same for memory to be used again (S42), beside its size.
struct PinnedKey {
  CUcontext context = nullptr;  // whose it is: pointer attributes tell, and a reset takes it along
  unsigned flags = 0;           // cudaHostAlloc's
  int node = 0;                 // of memory

  bool operator==(const PinnedKey&) const = default;
};

struct PinnedBlock {
  char* address = nullptr;
  size_t bytes = 0;
  PinnedKey key;
  unsigned long long id = 0;  // the driver's, unique in the process; 0: it gives none
  bool registered = false;    // memory of ours that is registered; else the driver allocated it
  bool device_address_taken = false;
  PinnedState state = PinnedState::kTaken;

  // While idle: behind all work before the free (S42).
  Fences fences;
  bool passed = false;  // they were seen to have
  uint64_t idle_since_ns = 0;
};

}  // namespace slipstream::allocator
