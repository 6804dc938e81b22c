// What a pointer points to, by the driver's own word.
//
// Threading: pure questions to the driver, 0.1 us each; they wait for nothing and disturb no capture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/driver.h"

namespace slipstream::cuda {

enum class MemoryKind : uint8_t {
  kPageable,  // nobody's: ordinary host memory, or no memory at all
  kHost,      // pinned or registered
  kManaged,
  kDevice,
  kUnknown,  // the driver did not say
};

MemoryKind KindOf(const Driver& driver, const void* address);

bool IsDeviceMemory(const Driver& driver, CUdeviceptr address);

// What a promoted copy needs to know of its destination.
struct Destination {
  bool plain = false;          // ordinary memory of the device, one allocation from begin to end
  bool shareable_only = true;  // mapped by hand (cuMemMap): it may be shared or unmapped without any call that is seen
};

// `device`, `context`: where the copy is made.
Destination DestinationAt(const Driver& driver, CUdeviceptr address, size_t bytes, CUdevice device, CUcontext context);

}  // namespace slipstream::cuda
