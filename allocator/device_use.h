// How much of a device's memory is in use, by anybody: what stands beside a pool's figures in a trace.
//
// Threading: pure functions.
// Hazard: asks the driver, in the context, with the thread's captures relaxed. Not for a process that is exiting (S53).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda/driver.h"
#include "cuda/ledger.h"

namespace slipstream::allocator {

// Bytes. `context` is one of the device's; null: it was reset. Nothing: the driver does not say, or a stream is being
// captured, whose thread is asked nothing that the program did not ask.
inline std::optional<uint64_t> AskDeviceUse(const cuda::Driver& driver, const cuda::Ledger& ledger, CUcontext context) {
  if (context == nullptr || ledger.CaptureLive()) return std::nullopt;
  const cuda::InContext in(driver, context);
  size_t free = 0;
  size_t total = 0;
  if (driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS || free > total) return std::nullopt;
  return total - free;
}

}  // namespace slipstream::allocator
