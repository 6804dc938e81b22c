#include "transfer/ring.h"

#include <algorithm>
#include <utility>

#include "cuda/mutant.h"

namespace slipstream::transfer {

void Ring::Add(char* segment) {
  {
    const std::lock_guard lock(segments_mutex_);
    segments_.push_back(segment);
  }
  Shard& shard = shards_.Mine();
  const std::lock_guard lock(shard);
  for (size_t offset = 0; offset < kSegmentBytes; offset += kSlotBytes) shard.free.push_back(segment + offset);
  capacity_.fetch_add(kSegmentBytes, std::memory_order_release);
}

std::vector<cuda::FenceRef> Ring::InFlight() {
  std::vector<cuda::FenceRef> fences;
  shards_.ForEach([&](Shard& shard) {
    const std::lock_guard lock(shard);
    for (const Lease& lease : shard.in_flight) fences.push_back(lease.fence);
  });
  return fences;
}

std::vector<char*> Ring::TakeIdleSegments() {
  const std::lock_guard lock(segments_mutex_);
  const cuda::AllLocked all(shards_);
  shards_.ForEach([](Shard& shard) { shard.Collect(); });
  std::vector<char*> idle;
  for (char* const segment : segments_) {
    const auto inside = [segment](const char* slot) { return slot >= segment && slot < segment + kSegmentBytes; };
    ptrdiff_t free = 0;
    shards_.ForEach([&](Shard& shard) { free += std::count_if(shard.free.begin(), shard.free.end(), inside); });
    if (free != kSegmentBytes / kSlotBytes) continue;
    idle.push_back(segment);
    shards_.ForEach([&](Shard& shard) { std::erase_if(shard.free, inside); });
  }
  for (char* const segment : idle) std::erase(segments_, segment);
  capacity_.fetch_sub(idle.size() * kSegmentBytes, std::memory_order_release);
  return idle;
}

// Leases lie in the order of their fences.
void Ring::Shard::Collect() {
  cuda::Behind behind;
  for (auto lease = in_flight.begin(); lease != in_flight.end();) {
    if (behind.Done(lease->fence) || Broken(Mutant::kS08Early)) {
      free.insert(free.end(), lease->slots.begin(), lease->slots.end());
      lease = in_flight.erase(lease);
    } else {
      ++lease;
    }
  }
}

char* Ring::Take(bool ask_first) {
  char* slot = nullptr;
  shards_.AnyFromMine([&](Shard& shard) {
    const std::lock_guard lock(shard);
    if (std::exchange(ask_first, false) || shard.free.empty()) shard.Collect();
    if (shard.free.empty()) return false;
    slot = shard.free.back();
    shard.free.pop_back();
    return true;
  });
  return slot;
}

void Ring::Commit(const std::vector<char*>& slots, const cuda::FenceRef& fence) {
  if (slots.empty()) return;
  Shard& shard = shards_.Mine();
  const std::lock_guard lock(shard);
  if (fence) {
    shard.in_flight.push_back({slots, fence});
  } else {
    shard.free.insert(shard.free.end(), slots.begin(), slots.end());
  }
}

void Ring::WaitForOne() {
  for (const cuda::FenceRef& fence : InFlight()) {
    (void)fence.Wait();
    return;
  }
}

char* SlotLease::TakeOwn() {
  if (with_fence_ == 0 || !held_.front().fence) return nullptr;
  if (!held_.front().fence.Done() && !Broken(Mutant::kS08Early)) return nullptr;
  char* const slot = held_.front().slot;
  held_.pop_front();
  --with_fence_;
  return slot;
}

char* SlotLease::Take() {
  char* slot = TakeOwn();
  if (slot == nullptr) slot = ring_.Take(std::exchange(first_, false));
  if (slot == nullptr && Broken(Mutant::kS08) && ring_.capacity() != 0) {
    if (with_fence_ != 0 && held_.front().fence) (void)held_.front().fence.Wait();
    ring_.WaitForOne();
    slot = TakeOwn();
    if (slot == nullptr) slot = ring_.Take(true);
  }
  if (slot != nullptr) held_.push_back({slot, cuda::FenceRef()});
  return slot;
}

char* SlotLease::TakeWithin(std::chrono::nanoseconds limit) {
  if (with_fence_ != 0 && held_.front().fence) (void)held_.front().fence.WaitAtMost(limit);
  return Take();
}

void SlotLease::ReadUpTo(const cuda::FenceRef& fence) { held_[with_fence_++].fence = fence; }

void SlotLease::End(const cuda::FenceRef& fence) {
  std::vector<char*> slots;
  slots.reserve(held_.size());
  for (const Held& held : held_) slots.push_back(held.slot);
  ring_.Commit(slots, fence);
  held_.clear();
}

}  // namespace slipstream::transfer
