#include "transfer/device_staging.h"

#include <algorithm>
#include <utility>

#include "cuda/mutant.h"

namespace slipstream::transfer {
namespace {

// At least this part of the device's memory stays free when a segment is taken.
constexpr size_t kStaysFreeOneIn = 16;

}  // namespace

bool DeviceStaging::IsShort(size_t free, size_t total) { return free < total / kStaysFreeOneIn; }

bool DeviceStaging::MakeStreams() {
  for (std::atomic<CUstream>* const stream : {&stream_, &fetch_stream_}) {
    if (stream->load(std::memory_order_relaxed) != nullptr) continue;
    CUstream made = nullptr;
    if (driver_.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return false;
    stream->store(made, std::memory_order_release);
  }
  return true;
}

bool DeviceStaging::Grow(size_t least, size_t most) {
  {
    // Room for as many ranges as there can be: to take one back, or to give memory back, needs no memory.
    const std::lock_guard lock(mutex_);
    ranges_.reserve((bytes() + most) / kGranuleBytes);
  }
  size_t free = 0;
  size_t total = 0;
  CUdeviceptr memory = 0;
  const bool known = driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS;
  const size_t stays = total / kStaysFreeOneIn;
  const size_t room = free > stays ? (free - stays) / kSegmentBytes * kSegmentBytes : 0;
  const size_t bytes = std::min(most, room);
  if (known && room != 0 && bytes < least) {
    longest_.store(room, std::memory_order_release);
    return false;
  }
  if (!known || room == 0 || !MakeStreams() || driver_.cuMemAlloc(&memory, bytes) != CUDA_SUCCESS) {
    closed_.store(true, std::memory_order_release);
    return false;
  }
  const std::lock_guard lock(mutex_);
  Range range;
  range.memory = range.segment = memory;
  range.bytes = bytes;
  ranges_.push_back(std::move(range));
  bytes_.fetch_add(bytes, std::memory_order_release);
  largest_.store(std::max(largest(), bytes), std::memory_order_release);
  return true;
}

CUdeviceptr DeviceStaging::Take(size_t bytes) {
  if (closed() || bytes > largest()) return 0;
  const size_t wanted = (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
  const std::lock_guard lock(mutex_);
  Collect();
  const auto fits = [&](const Range& range) { return range.IsFree() && range.bytes >= wanted; };
  // From the oldest on, as in a ring.
  const auto oldest = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.memory >= next_; });
  auto found = std::find_if(oldest, ranges_.end(), fits);
  if (found == ranges_.end()) found = std::find_if(ranges_.begin(), oldest, fits);
  if (found == ranges_.end() || !fits(*found)) return 0;
  return Cut(static_cast<size_t>(found - ranges_.begin()), wanted);
}

void DeviceStaging::Collect() {
  const auto pending = [&](const Range& range) { return static_cast<bool>(range.fence); };
  if (std::any_of(ranges_.begin(), ranges_.end(), pending)) {
    cuda::Behind behind;
    const auto settle = [&](Range& range) {
      if (range.fence && (behind.Done(range.fence) || Broken(Mutant::kS08Early))) range.fence = {};
    };
    const auto oldest = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.memory >= next_; });
    std::for_each(oldest, ranges_.end(), settle);
    std::for_each(ranges_.begin(), oldest, settle);
  }
  size_t kept = 0;
  for (Range& range : ranges_) {
    Range* const before = kept != 0 ? &ranges_[kept - 1] : nullptr;
    if (before != nullptr && before->segment == range.segment && before->IsFree() && range.IsFree()) {
      before->bytes += range.bytes;
    } else {
      if (&ranges_[kept] != &range) ranges_[kept] = std::move(range);
      ++kept;
    }
  }
  ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(kept), ranges_.end());
}

CUdeviceptr DeviceStaging::Cut(size_t index, size_t bytes) {
  Range rest;
  rest.memory = ranges_[index].memory + bytes;
  rest.bytes = ranges_[index].bytes - bytes;
  rest.segment = ranges_[index].segment;
  ranges_[index].bytes = bytes;
  ranges_[index].held = true;
  next_ = rest.memory;
  const CUdeviceptr lease = ranges_[index].memory;
  if (rest.bytes != 0) ranges_.insert(ranges_.begin() + static_cast<ptrdiff_t>(index) + 1, std::move(rest));
  return lease;
}

// Null: the device was reset.
DeviceStaging::Range* DeviceStaging::FindHeld(CUdeviceptr lease) {
  const auto range =
      std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.held && r.memory == lease; });
  return range != ranges_.end() ? &*range : nullptr;
}

void DeviceStaging::Commit(CUdeviceptr lease, const cuda::FenceRef& fence) {
  const std::lock_guard lock(mutex_);
  Range* const range = FindHeld(lease);
  if (range == nullptr) return;
  range->held = false;
  range->fence = fence;
  range->unfenced = fence ? 0 : ++unfenced_;
}

void DeviceStaging::Cancel(CUdeviceptr lease) {
  const std::lock_guard lock(mutex_);
  if (Range* const range = FindHeld(lease)) range->held = false;
}

void DeviceStaging::Forget() {
  closed_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  ranges_.clear();
  quiet_free_.Forget();
  bytes_.store(0, std::memory_order_release);
}

bool DeviceStaging::GiveBack(const std::function<bool()>& all_has_run) {
  if (bytes() == 0) return false;
  closed_.store(true, std::memory_order_release);
  // The program waits here for work of its own, as it does where the device is out of memory: its framework
  // synchronizes before it tries again.
  WaitForFences();
  ClearUnfenced(all_has_run);
  return FreeIdleSegments();
}

bool DeviceStaging::GiveBackIdle() {
  if (bytes() == 0) return false;
  closed_.store(true, std::memory_order_release);
  return FreeIdleSegments();
}

bool DeviceStaging::FreeIdleSegments() {
  bool any = false;
  while (const CUdeviceptr segment = TakeIdleSegment()) {
    any = true;
    (void)quiet_free_.Free(segment);
  }
  if (any) quiet_free_.Finish();
  return any;
}

void DeviceStaging::WaitForFences() {
  for (;;) {
    cuda::FenceRef fence;
    {
      const std::lock_guard lock(mutex_);
      const auto pending =
          std::find_if(ranges_.begin(), ranges_.end(), [](const Range& r) { return static_cast<bool>(r.fence); });
      if (pending == ranges_.end()) return;
      fence = pending->fence;
    }
    const bool passed = fence.Wait() == CUDA_SUCCESS;
    const std::lock_guard lock(mutex_);
    for (Range& range : ranges_) {
      if (!range.fence || range.fence.event() != fence.event()) continue;
      range.fence = {};
      if (!passed) range.unfenced = ++unfenced_;
    }
  }
}

void DeviceStaging::ClearUnfenced(const std::function<bool()>& all_has_run) {
  uint64_t last = 0;  // what is committed behind this question is not in its answer
  {
    const std::lock_guard lock(mutex_);
    for (const Range& range : ranges_) last = std::max(last, range.unfenced);
  }
  if (last == 0 || !all_has_run()) return;
  const std::lock_guard lock(mutex_);
  for (Range& range : ranges_) {
    if (range.unfenced <= last) range.unfenced = 0;
  }
}

CUdeviceptr DeviceStaging::TakeIdleSegment() {
  const std::lock_guard lock(mutex_);
  Collect();
  for (const Range& range : ranges_) {
    const CUdeviceptr segment = range.segment;
    const auto in = [segment](const Range& other) { return other.segment == segment; };
    // What is free lies together: it is all of the segment, or there is something else in it.
    if (!range.IsFree() || std::count_if(ranges_.begin(), ranges_.end(), in) != 1) continue;
    bytes_.fetch_sub(range.bytes, std::memory_order_release);
    std::erase_if(ranges_, in);
    return segment;
  }
  return 0;
}

}  // namespace slipstream::transfer
