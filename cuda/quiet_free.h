// Gives device memory back to the driver without waiting for the device (S73).
//
// cuMemFree waits for all work of the device, and other threads' launches wait meanwhile: measured beside a running
// kernel, driver 580, for as long as it runs. A thread of ours that calls it can keep back the very launch that a
// kernel waits for. A stream-ordered free of the same memory waits for nothing on the host: cuMemFreeAsync takes memory
// of cuMemAlloc too, which is free at the stream's next synchronization (NVIDIA, "Using the NVIDIA CUDA Stream-Ordered
// Memory Allocator", part 1, interoperability with cudaMalloc; measured likewise).
//
// Threading: any thread.
// Ownership: its stream is never destroyed; a reset of the device takes it along.
// Hazard: no work may be left on the memory. Whoever frees it here has seen that, or waited for it.
#pragma once

#include <cuda.h>

#include <atomic>

#include "cuda/driver.h"

namespace slipstream::cuda {

class QuietFree {
 public:
  explicit QuietFree(const Driver& driver) : driver_(driver) {}
  QuietFree(const QuietFree&) = delete;
  QuietFree& operator=(const QuietFree&) = delete;

  // Memory of cuMemAlloc, in its context, which is current. False: it is still there. Where the driver has no
  // stream-ordered frees (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), this is cuMemFree.
  bool Free(CUdeviceptr memory);

  // The driver has got what was freed so far, in its context, which is current. Waits for those frees, and for what the
  // whole context was made to wait for (cuCtxWaitEvent).
  void Finish();

  // The device was reset.
  void Forget() { stream_.store(nullptr, std::memory_order_release); }

 private:
  CUstream Stream();

  const Driver& driver_;
  std::atomic<CUstream> stream_{nullptr};
};

}  // namespace slipstream::cuda
