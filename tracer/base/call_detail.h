// What a hooked call moved, allocated or freed. The hook's row in shim/hooks.def fills it in after the call.
//
// Threading: plain data.
#pragma once

#include <cstdint>

namespace slipstream::tracer {

enum class MemoryUse : uint8_t {
  kNone,
  kAllocated,  // `bytes` at `address`
  kFreed,
  kReset  // all that the process has on a device is gone
};

// What an address or a handle stands for.
enum class MemoryKind : uint8_t {
  kDevice = 0,
  kManaged = 1,  // on whichever device or in the host, wherever it was touched last
  kPhysical = 2  // a handle of memory that is to be mapped (cuMemCreate), and no address
};

struct CallDetail {
  uint64_t bytes = 0;
  int copy_kind = -1;  // a cudaMemcpyKind, or -1: not a copy
  // Without an address nothing was allocated or freed.
  MemoryUse use = MemoryUse::kNone;
  MemoryKind kind = MemoryKind::kDevice;
  int device = -1;  // -1: to be asked for
  uint64_t address = 0;
  const void* caller = nullptr;  // where the call returns to; null: not known
};

}  // namespace slipstream::tracer
