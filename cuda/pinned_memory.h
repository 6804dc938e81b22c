// Pinned memory of the engine's own, in segments that are made one after the other and kept until the program has none.
//
// A segment is ordinary memory on huge pages that is filled first and registered then: about ten times faster than
// cudaHostAlloc, and little of it under the driver's locks. It is not inherited by forked children (S51).
// Threading: from any thread that has the context current.
// Ownership: segments live as long as the process, or until they are unpinned.
#pragma once

#include <cstddef>

#include "cuda/driver.h"
#include "policy/transfer_plan.h"

namespace slipstream::cuda {

using policy::kHugePageBytes;

// `bytes` is a multiple of kHugePageBytes. Its pages are on the NUMA node where there is room, and the process may
// (S60); below 0: wherever. Null: no memory, or the driver refuses to register it.
char* PinSegment(const Driver& driver, size_t bytes, int numa_node);

// Of the host's nodes the one that is nearest to the device; below 0: the driver does not say, or there is but one.
int NumaNodeOf(const Driver& driver, CUdevice device);

// Nothing may be on its way from or to the segment. The driver may wait for the device (S55). False: it is kept,
// because the driver would not let go of it.
bool UnpinSegment(const Driver& driver, char* memory, size_t bytes);

}  // namespace slipstream::cuda
