#include "cuda/fence.h"

#include <algorithm>
#include <new>
#include <thread>

#include "cuda/clock.h"
#include "cuda/own_work.h"

namespace slipstream::cuda {
namespace {

constinit thread_local uint64_t t_waited_until_ns = 0;

}  // namespace

FenceRef::~FenceRef() {
  if (fence_ == nullptr) return;
  if (fence_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) fence_->pool->GiveBack(fence_);
}

CUresult FenceRef::Ask() const {
  if (fence_->done.load(std::memory_order_acquire) || fence_->pool->IsAbandoned(fence_->context)) return CUDA_SUCCESS;
  const CUresult answer = fence_->pool->driver().cuEventQuery(fence_->event);
  if (answer == CUDA_SUCCESS) fence_->done.store(true, std::memory_order_release);
  return answer;
}

uint64_t FenceRef::WaitedUntilNs() { return t_waited_until_ns; }

CUresult FenceRef::Wait() const {
  if (fence_->done.load(std::memory_order_acquire) || fence_->pool->IsAbandoned(fence_->context)) return CUDA_SUCCESS;
  const OwnWork own;
  const CUresult result = fence_->pool->driver().cuEventSynchronize(fence_->event);
  t_waited_until_ns = NowNs();
  if (result == CUDA_SUCCESS) fence_->done.store(true, std::memory_order_release);
  return result;
}

CUresult FenceRef::Synchronize() const {
  if (fence_->pool->IsAbandoned(fence_->context)) return CUDA_SUCCESS;
  const OwnWork own;
  return fence_->pool->driver().cuEventSynchronize(fence_->event);
}

bool FenceRef::WaitAtMost(std::chrono::nanoseconds limit) const {
  constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::microseconds(500);
  const auto end = std::chrono::steady_clock::now() + limit;
  for (std::chrono::nanoseconds sleep = std::chrono::microseconds(10);; sleep = std::min(2 * sleep, kLongestSleep)) {
    // Read before the question: a thread that did not run for longer than that looks once more.
    const bool last = std::chrono::steady_clock::now() >= end;
    const CUresult answer = Ask();
    if (answer != CUDA_ERROR_NOT_READY || last) return answer == CUDA_SUCCESS;
    std::this_thread::sleep_for(sleep);
    t_waited_until_ns = NowNs();
  }
}

bool Behind::Done(const FenceRef& fence) {
  const CUstream stream = fence.fence_->stream;
  const auto end = streams_.begin() + static_cast<ptrdiff_t>(count_);
  if (std::find(streams_.begin(), end, stream) != end) return fence.fence_->done.load(std::memory_order_acquire);
  if (fence.Done()) return true;
  if (stream != nullptr && count_ < streams_.size()) streams_[count_++] = stream;
  return false;
}

// Contexts are few, and mostly there is one: the first fence of the list is the one.
Fence* FencePool::TakeFrom(Spare& spare, CUcontext context) {
  const std::lock_guard lock(spare.mutex);
  Fence** link = &spare.first;
  while (*link != nullptr && (*link)->context != context) link = &(*link)->next_free;
  Fence* const fence = *link;
  if (fence != nullptr) *link = fence->next_free;
  return fence;
}

Fence* FencePool::Take(CUcontext context) {
  if (IsAbandoned(context)) return nullptr;
  Fence* spare = nullptr;
  // Where one thread takes what another one gives back, no more are made for that.
  if (spare_.AnyFromMine([&](Spare& shard) { return (spare = TakeFrom(shard, context)) != nullptr; })) {
    spare->done.store(false, std::memory_order_relaxed);
    spare->references.store(1, std::memory_order_relaxed);
    return spare;
  }
  auto* const fence = new (std::nothrow) Fence();
  if (fence == nullptr) return nullptr;
  fence->pool = this;
  fence->context = context;
  fence->references.store(1, std::memory_order_relaxed);
  const CurrentContext current(driver_, context);
  if (driver_.cuEventCreate(&fence->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    delete fence;
    return nullptr;
  }
  return fence;
}

// The event may still be pending, and others may have been made to wait for it: both were settled when the wait was
// enqueued, so recording it again changes nothing for them (cuda.h, cuStreamWaitEvent).
void FencePool::GiveBack(Fence* fence) {
  Spare& spare = spare_.Mine();
  const std::lock_guard lock(spare.mutex);
  fence->next_free = spare.first;
  spare.first = fence;
}

void FencePool::Abandon(CUcontext context) {
  const std::lock_guard lock(abandon_mutex_);
  const size_t count = abandoned_count_.load(std::memory_order_relaxed);
  if (context == nullptr || count == abandoned_.size() || IsAbandoned(context)) return;
  abandoned_[count] = context;
  abandoned_count_.store(count + 1, std::memory_order_release);
}

FenceRef FencePool::Record(CUcontext context, CUstream stream) {
  Fence* const fence = Take(context);
  if (fence == nullptr) return {};
  fence->stream = stream == CU_STREAM_PER_THREAD ? nullptr : stream;  // of many threads
  FenceRef reference(fence);
  if (driver_.cuEventRecord(fence->event, stream) != CUDA_SUCCESS) return {};
  return reference;
}

FenceRef FencePool::RecordContext(CUcontext context) {
  Fence* const fence = Take(context);
  if (fence == nullptr) return {};
  fence->stream = nullptr;
  FenceRef reference(fence);
  if (driver_.cuCtxRecordEvent(context, fence->event) != CUDA_SUCCESS) return {};
  return reference;
}

}  // namespace slipstream::cuda
