// Where large copies wait for their DMA: slots of pinned memory, leased to a copy and used again when its fence passed.
//
// Threading: Add, Take and Commit from any thread. The lock is held while the driver is asked whether fences have
//   passed; nothing that synchronises is called under it (S55).
// Ownership: slots are never given back to the system.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "transfer/fence.h"

namespace slipstream::transfer {

class Ring {
 public:
  static constexpr size_t kSlotBytes = size_t{2} << 20;
  static constexpr size_t kSegmentBytes = size_t{32} << 20;

  // A segment of kSegmentBytes of pinned memory.
  void Add(char* segment);
  // Bytes in all.
  size_t capacity() const { return capacity_.load(std::memory_order_acquire); }

  // Appends up to `count` free slots to *slots. Asks what is in flight, and waits for nothing (S08).
  void Take(size_t count, std::vector<char*>* slots);
  // The slots hold what is to be read up to `fence`. Without a fence they are free at once.
  void Commit(const std::vector<char*>& slots, const FenceRef& fence);

  // Waits for the oldest lease; only the broken rule S08 does.
  void WaitForOldest();

 private:
  struct Lease {
    std::vector<char*> slots;
    FenceRef fence;
  };

  std::atomic<size_t> capacity_{0};
  std::mutex mutex_;
  std::vector<char*> free_;
  std::deque<Lease> in_flight_;
};

}  // namespace slipstream::transfer
