#include "cuda/quiet_free.h"

#include "cuda/mutant.h"
#include "cuda/own_work.h"

namespace slipstream::cuda {

// Of two threads that make one at once, one destroys its own.
CUstream QuietFree::Stream() {
  CUstream stream = stream_.load(std::memory_order_acquire);
  if (stream != nullptr) return stream;
  CUstream made = nullptr;
  if (driver_.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return nullptr;
  if (stream_.compare_exchange_strong(stream, made, std::memory_order_acq_rel)) return made;
  (void)driver_.cuStreamDestroy(made);
  return stream;
}

bool QuietFree::Free(CUdeviceptr memory) {
  CUstream const stream = Broken(Mutant::kS73) ? nullptr : Stream();
  if (stream != nullptr && driver_.cuMemFreeAsync(memory, stream) == CUDA_SUCCESS) return true;
  return driver_.cuMemFree(memory) == CUDA_SUCCESS;
}

void QuietFree::Finish() {
  CUstream const stream = stream_.load(std::memory_order_acquire);
  if (stream == nullptr) return;
  const OwnWork own;
  // One may return the error of earlier work, once, instead of waiting (CUDA Driver API, cuStreamSynchronize).
  if (driver_.cuStreamSynchronize(stream) == CUDA_SUCCESS || driver_.cuStreamSynchronize(stream) == CUDA_SUCCESS)
    return;
  // Not cuCtxSynchronize, which waits for other streams (S73) and ends a capture of the program's.
  CUevent behind = nullptr;
  if (driver_.cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
  if (driver_.cuEventRecord(behind, stream) == CUDA_SUCCESS) (void)driver_.cuEventSynchronize(behind);
  (void)driver_.cuEventDestroy(behind);
}

}  // namespace slipstream::cuda
