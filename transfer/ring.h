// Where large copies wait for their DMA: slots of pinned memory, leased to a copy and used again when its fence passed.
//
// Slots that were used last are used first: they may still be in the processors' caches.
// What a thread has used stays with it, behind a lock of its own, so threads that copy meet in none and ask about their
// own fences; a thread that has nothing left takes what others have.
//
// Threading: Ring's functions from any thread, a SlotLease by one. A lock is held while the driver is asked whether
//   fences have passed; nothing that synchronizes is called under it (S55).
// Ownership: segments are the owner's, who may have those back of which no slot is in use.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "cuda/fence.h"
#include "cuda/sharded.h"

namespace slipstream::transfer {

class Ring {
 public:
  static constexpr size_t kSlotBytes = size_t{2} << 20;
  static constexpr size_t kSegmentBytes = size_t{32} << 20;

  // A segment of kSegmentBytes of pinned memory.
  void Add(char* segment);
  // What the leases that are in flight wait for.
  std::vector<cuda::FenceRef> InFlight();
  // Takes out the segments of which every slot is free now.
  std::vector<char*> TakeIdleSegments();
  // Bytes in all.
  size_t capacity() const { return capacity_.load(std::memory_order_acquire); }

  // A free slot; null: all are in flight, of whatever thread. Asks what is in flight where none is free, or first of
  // all, and waits for nothing (S08).
  char* Take(bool ask_first);
  // The slots hold what is to be read up to `fence`. Without a fence they are free at once.
  void Commit(const std::vector<char*>& slots, const cuda::FenceRef& fence);

  // Waits for some lease; only the broken rule S08 does.
  void WaitForOne();

 private:
  struct Lease {
    std::vector<char*> slots;
    cuda::FenceRef fence;
  };
  struct Shard {
    std::mutex mutex;
    std::vector<char*> free;
    std::deque<Lease> in_flight;

    void lock() { mutex.lock(); }
    void unlock() { mutex.unlock(); }
    // With the lock held.
    void Collect();
  };

  std::atomic<size_t> capacity_{0};
  std::mutex segments_mutex_;
  std::vector<char*> segments_;
  cuda::Sharded<Shard> shards_;
};

// The slots that one copy has.
class SlotLease {
 public:
  explicit SlotLease(Ring& ring) : ring_(ring) {}
  SlotLease(const SlotLease&) = delete;
  SlotLease& operator=(const SlotLease&) = delete;

  // Another slot: one of this copy's whose fence has passed, or one of the ring's. Null: all are in flight, and waiting
  // for them could be waiting for the host (S08).
  char* Take();
  // The same; where this copy's oldest slot is being read, waits for that, at most so long.
  char* TakeWithin(std::chrono::nanoseconds limit);
  // What the oldest slot without a fence holds is read up to `fence`. An empty one: nobody knows before the end.
  void ReadUpTo(const cuda::FenceRef& fence);
  // All slots are read up to `fence`. Without a fence they are free at once. Without End they are lost.
  void End(const cuda::FenceRef& fence);

 private:
  struct Held {
    char* slot;
    cuda::FenceRef fence;
  };

  char* TakeOwn();

  Ring& ring_;
  std::deque<Held> held_;  // the oldest first
  size_t with_fence_ = 0;  // the first ones, that Take may look at
  bool first_ = true;
};

}  // namespace slipstream::transfer
