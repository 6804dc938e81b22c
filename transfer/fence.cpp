#include "transfer/fence.h"

#include <new>

namespace slipstream::transfer {

FenceRef::~FenceRef() {
  if (fence_ == nullptr) return;
  if (fence_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) fence_->pool->GiveBack(fence_);
}

bool FenceRef::Done() const {
  if (fence_->done.load(std::memory_order_acquire)) return true;
  if (fence_->pool->driver().cuEventQuery(fence_->event) != CUDA_SUCCESS) return false;
  fence_->done.store(true, std::memory_order_release);
  return true;
}

CUresult FenceRef::Wait() const {
  if (fence_->done.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  const CUresult result = fence_->pool->driver().cuEventSynchronize(fence_->event);
  if (result == CUDA_SUCCESS) fence_->done.store(true, std::memory_order_release);
  return result;
}

Fence* FencePool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (free_ != nullptr) {
      Fence* const fence = std::exchange(free_, free_->next_free);
      fence->done.store(false, std::memory_order_relaxed);
      fence->references.store(1, std::memory_order_relaxed);
      return fence;
    }
  }
  auto* const fence = new (std::nothrow) Fence();
  if (fence == nullptr) return nullptr;
  fence->pool = this;
  fence->references.store(1, std::memory_order_relaxed);
  if (driver_.cuEventCreate(&fence->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    delete fence;
    return nullptr;
  }
  return fence;
}

// The event may still be pending, and others may have been made to wait for it: both were settled when the wait was
// enqueued, so recording it again changes nothing for them (cuda.h, cuStreamWaitEvent).
void FencePool::GiveBack(Fence* fence) {
  const std::lock_guard lock(mutex_);
  fence->next_free = free_;
  free_ = fence;
}

FenceRef FencePool::Record(CUstream stream) {
  Fence* const fence = Take();
  if (fence == nullptr) return {};
  FenceRef reference(fence);
  if (driver_.cuEventRecord(fence->event, stream) != CUDA_SUCCESS) return {};
  return reference;
}

FenceRef FencePool::RecordContext(CUcontext context) {
  Fence* const fence = Take();
  if (fence == nullptr) return {};
  FenceRef reference(fence);
  if (driver_.cuCtxRecordEvent(context, fence->event) != CUDA_SUCCESS) return {};
  return reference;
}

}  // namespace slipstream::transfer
