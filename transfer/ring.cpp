#include "transfer/ring.h"

#include <algorithm>

namespace slipstream::transfer {

void Ring::Add(char* segment) {
  const std::lock_guard lock(mutex_);
  for (size_t offset = 0; offset < kSegmentBytes; offset += kSlotBytes) free_.push_back(segment + offset);
  capacity_.fetch_add(kSegmentBytes, std::memory_order_release);
}

void Ring::Take(size_t count, std::vector<char*>* slots) {
  const std::lock_guard lock(mutex_);
  // Streams pass their fences in their own order, so one that is not done says nothing about the next.
  for (auto lease = in_flight_.begin(); lease != in_flight_.end() && free_.size() < count;) {
    if (lease->fence.Done()) {
      free_.insert(free_.end(), lease->slots.begin(), lease->slots.end());
      lease = in_flight_.erase(lease);
    } else {
      ++lease;
    }
  }
  const size_t taken = std::min(count, free_.size());
  slots->insert(slots->end(), free_.end() - static_cast<ptrdiff_t>(taken), free_.end());
  free_.resize(free_.size() - taken);
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

}  // namespace slipstream::transfer
