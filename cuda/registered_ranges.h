// Host memory that the program has registered (cudaHostRegister): a source that overlaps it is not pageable, even where
// its ends are (S01).
//
// Threading: any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/address_range.h"

namespace slipstream::cuda {

class RegisteredRanges {
 public:
  void Add(const AddressRange& range) {
    const std::lock_guard lock(mutex_);
    ranges_.push_back(range);
    count_.store(ranges_.size(), std::memory_order_release);
  }
  void Remove(const void* address) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    const std::lock_guard lock(mutex_);
    std::erase_if(ranges_, [begin](const AddressRange& range) { return range.begin == begin; });
    count_.store(ranges_.size(), std::memory_order_release);
  }
  bool Overlap(const AddressRange& range) {
    return AnyOf([&](const AddressRange& r) { return r.Overlaps(range); });
  }
  // Whether some of the range is registered and some of it, by that registration, is not.
  bool OverlapInPart(const AddressRange& range) {
    return AnyOf([&](const AddressRange& r) { return r.Overlaps(range) && !r.Contains(range); });
  }

 private:
  template <typename Matches>
  bool AnyOf(const Matches& matches) {
    if (count_.load(std::memory_order_acquire) == 0) return false;
    const std::lock_guard lock(mutex_);
    return std::any_of(ranges_.begin(), ranges_.end(), matches);
  }

  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::vector<AddressRange> ranges_;
};

}  // namespace slipstream::cuda
