#include "transfer/ring.h"

#include <algorithm>
#include <utility>

#include "transfer/mutant.h"

namespace slipstream::transfer {

void Ring::Add(char* segment) {
  const std::lock_guard lock(mutex_);
  segments_.push_back(segment);
  for (size_t offset = 0; offset < kSegmentBytes; offset += kSlotBytes) free_.push_back(segment + offset);
  capacity_.fetch_add(kSegmentBytes, std::memory_order_release);
}

std::vector<FenceRef> Ring::InFlight() {
  const std::lock_guard lock(mutex_);
  std::vector<FenceRef> fences;
  fences.reserve(in_flight_.size());
  for (const Lease& lease : in_flight_) fences.push_back(lease.fence);
  return fences;
}

std::vector<char*> Ring::TakeIdleSegments() {
  const std::lock_guard lock(mutex_);
  Collect();
  std::vector<char*> idle;
  for (char* const segment : segments_) {
    const auto inside = [segment](const char* slot) { return slot >= segment && slot < segment + kSegmentBytes; };
    if (std::count_if(free_.begin(), free_.end(), inside) == kSegmentBytes / kSlotBytes) idle.push_back(segment);
  }
  for (char* const segment : idle) {
    std::erase(segments_, segment);
    std::erase_if(free_, [segment](const char* slot) { return slot >= segment && slot < segment + kSegmentBytes; });
  }
  capacity_.fetch_sub(idle.size() * kSegmentBytes, std::memory_order_release);
  return idle;
}

// With the lock held. Leases lie in the order of their fences.
void Ring::Collect() {
  Behind behind;
  for (auto lease = in_flight_.begin(); lease != in_flight_.end();) {
    if (behind.Done(lease->fence) || Broken(Mutant::kS08Early)) {
      free_.insert(free_.end(), lease->slots.begin(), lease->slots.end());
      lease = in_flight_.erase(lease);
    } else {
      ++lease;
    }
  }
}

char* Ring::Take(bool ask_first) {
  const std::lock_guard lock(mutex_);
  if (ask_first || free_.empty()) Collect();
  if (free_.empty()) return nullptr;
  char* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void Ring::Commit(const std::vector<char*>& slots, const FenceRef& fence) {
  if (slots.empty()) return;
  const std::lock_guard lock(mutex_);
  if (fence) {
    in_flight_.push_back({slots, fence});
  } else {
    free_.insert(free_.end(), slots.begin(), slots.end());
  }
}

void Ring::WaitForOldest() {
  FenceRef oldest;
  {
    const std::lock_guard lock(mutex_);
    if (!in_flight_.empty()) oldest = in_flight_.front().fence;
  }
  if (oldest) (void)oldest.Wait();
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
    ring_.WaitForOldest();
    slot = TakeOwn();
    if (slot == nullptr) slot = ring_.Take(true);
  }
  if (slot != nullptr) held_.push_back({slot, FenceRef()});
  return slot;
}

char* SlotLease::TakeWithin(std::chrono::nanoseconds limit) {
  if (with_fence_ != 0 && held_.front().fence) (void)held_.front().fence.WaitAtMost(limit);
  return Take();
}

void SlotLease::ReadUpTo(const FenceRef& fence) { held_[with_fence_++].fence = fence; }

void SlotLease::End(const FenceRef& fence) {
  std::vector<char*> slots;
  slots.reserve(held_.size());
  for (const Held& held : held_) slots.push_back(held.slot);
  ring_.Commit(slots, fence);
  held_.clear();
}

}  // namespace slipstream::transfer
