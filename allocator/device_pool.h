// The pool of one device: its idle blocks by size, and its figures.
//
// Idle blocks lie in shards of lists by size. A thread parks in its own shard and looks there first, so that threads
// seldom meet; what it does not find there it finds in the others.
// Threading: any thread. A list's lock is held to link and unlink, and while Refresh has the driver asked whether
// events have passed; never while calling anything that may wait for the device (S55).
// Ownership: never destroyed. Blocks belong to the BlockMap; a block that is taken out of a list is the taker's.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/block.h"
#include "allocator/reports.h"
#include "allocator/size_class.h"
#include "cuda/driver.h"
#include "cuda/quiet_free.h"

namespace slipstream::allocator {

class DevicePool {
 public:
  DevicePool(const cuda::Driver& driver, CUdevice device, CUcontext context, size_t total_bytes)
      : device_(device), total_bytes_(total_bytes), context_(context), quiet_free_(driver) {}
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  CUdevice device() const { return device_; }
  size_t total_bytes() const { return total_bytes_; }
  // The device's primary context; null after a reset, until the device is used again.
  CUcontext context() const { return context_.load(std::memory_order_acquire); }
  void SetContext(CUcontext context) { context_.store(context, std::memory_order_release); }

  // Makes the block one that Take may find, in the calling thread's shard. The newest of its size comes last.
  void Put(Block* block);
  // The same for one that was taken and did not do: it is the next of its shard to be found again.
  void PutBack(Block* block);
  // A block of at least `bytes` and at most `most` from a shard, counted from the calling thread's own (0): the newest
  // that is known to have passed, so that what is not needed grows old, else the oldest. Null: none.
  static constexpr size_t kShards = 8;
  Block* Take(size_t shard, size_t bytes, size_t most);
  // From the first shard that has one.
  Block* Take(size_t bytes, size_t most);
  // Which idle blocks: of others work may still be on the memory.
  enum class Which : uint8_t { kAll, kPassed };
  // Blocks that became idle before the time, one after the other; null: no more.
  Block* TakeOlderThan(uint64_t time_ns, Which which);
  // Asks passed(block) of each idle block that was not seen to have passed; it is called with a list's lock held.
  template <typename Passed>
  void Refresh(const Passed& passed) {
    ForEachList([this, &passed](List& list) {
      Block* before = nullptr;
      for (Block* block = list.pending; block != nullptr;) {
        Block* const next = block->next;
        if (passed(block)) {
          list.UnlinkPending(before);
          list.PushPassed(block);
          parked_bytes_.fetch_sub(TakenFromDriver(block->bytes), std::memory_order_relaxed);
        } else {
          before = block;
        }
        block = next;
      }
      return true;
    });
  }
  // Whether blocks are to be made in advance (policy: allocator.pre_reserve): true once, and again after Clear.
  bool FirstUse() {
    return unused_.load(std::memory_order_relaxed) && unused_.exchange(false, std::memory_order_relaxed);
  }
  // Forgets every idle block. They are the map's still.
  void Clear();

  // Fences whose events may be used again; empty: there are none.
  // Only for a mutant: what takes or gives fences waits while it is held.
  std::unique_lock<std::mutex> LockFences() { return std::unique_lock(fences_mutex_); }
  Fences TakeFences();
  void GiveFences(Fences fences);

  // Memory that a thread has in its hands, neither idle nor the driver's, so that others do not find it. The scope ends
  // when it is one or the other again.
  class Move {
   public:
    explicit Move(DevicePool& pool) : pool_(pool) { pool_.moving_.fetch_add(1, std::memory_order_seq_cst); }
    ~Move() {
      pool_.moving_.fetch_sub(1, std::memory_order_seq_cst);
      pool_.Notify();
    }
    Move(const Move&) = delete;
    Move& operator=(const Move&) = delete;

   private:
    DevicePool& pool_;
  };
  // Memory has become idle or the driver's.
  void Moved() {
    moves_.fetch_add(1, std::memory_order_seq_cst);
    Notify();
  }
  uint32_t moves() const { return moves_.load(std::memory_order_seq_cst); }
  // Waits for the threads that have memory in their hands, but not for long: one of them may itself be waiting for work
  // that the calling thread has yet to submit. Whether there were more moves than `seen` then.
  bool AwaitMove(uint32_t seen);

  void CountLive(int64_t bytes) { live_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void CountTrim() { trims_.fetch_add(1, std::memory_order_relaxed); }
  void CountRetry() { retries_.fetch_add(1, std::memory_order_relaxed); }
  size_t idle_bytes() const { return idle_bytes_.load(std::memory_order_seq_cst); }
  PoolFigures Figures() const;
  // Bytes of the largest idle block; 0: there is none. Looks at the highest list of each shard, under its lock.
  size_t LargestIdle();

  // Free memory of the device: what the driver said when it was last asked, less what was got from it since, plus what
  // it got back. Others take memory too.
  size_t driver_free() const { return driver_free_.load(std::memory_order_relaxed); }
  void DriverSaid(size_t free, uint64_t now_ns) {
    driver_free_.store(free, std::memory_order_relaxed);
    asked_ns_.store(now_ns, std::memory_order_relaxed);
  }
  uint64_t asked_ns() const { return asked_ns_.load(std::memory_order_relaxed); }
  void GotFromDriver(size_t bytes) {
    size_t before = driver_free();
    while (!driver_free_.compare_exchange_weak(before, before - std::min(before, bytes), std::memory_order_relaxed)) {
    }
  }
  void GaveToDriver(size_t bytes) { driver_free_.fetch_add(bytes, std::memory_order_relaxed); }

  // What the driver will take by itself, by what it is for, and in all.
  void SetAside(int kind, size_t bytes) {
    set_aside_[static_cast<size_t>(kind)].store(bytes, std::memory_order_relaxed);
  }
  size_t set_aside() const {
    size_t sum = 0;
    for (const std::atomic<size_t>& bytes : set_aside_) sum += bytes.load(std::memory_order_relaxed);
    return sum;
  }

  // By which its blocks go back to the driver.
  cuda::QuietFree& quiet_free() { return quiet_free_; }

  // When its figures were last reported.
  std::atomic<uint64_t> reported_ns{0};

 private:
  struct alignas(64) List {
    std::mutex mutex;
    Block* passed = nullptr;        // known to be free of work, the newest first
    Block* pending = nullptr;       // the others, the oldest first
    Block* pending_last = nullptr;  // where there are any

    bool empty() const { return passed == nullptr && pending == nullptr; }
    void PushPassed(Block* block);
    void PushPending(Block* block, bool first);
    // The one behind `before`; null: the first.
    Block* UnlinkPassed(Block* before);
    Block* UnlinkPending(Block* before);
    template <typename Wanted>
    Block* TakeFirst(const Wanted& wanted, Which which);
  };
  struct Shard {
    std::array<List, kSizeClasses> lists;
    // A bit for each list that may have a block: set and cleared under the list's lock, read without it.
    std::array<std::atomic<uint64_t>, kSizeClasses / 64> filled{};

    bool MayHave(size_t index) const {
      return (filled[index / 64].load(std::memory_order_acquire) >> (index % 64) & 1) != 0;
    }
    void Fill(size_t index) { filled[index / 64].fetch_or(uint64_t{1} << (index % 64), std::memory_order_release); }
    void Empty(size_t index) {
      filled[index / 64].fetch_and(~(uint64_t{1} << (index % 64)), std::memory_order_release);
    }
  };

  // Calls visit(list) for each list that has a block, under its lock, until it returns false.
  template <typename Visit>
  void ForEachList(const Visit& visit) {
    for (Shard& shard : shards_) {
      for (size_t index = 0; index < kSizeClasses; ++index) {
        if (!shard.MayHave(index)) continue;
        List& list = shard.lists[index];
        const std::lock_guard lock(list.mutex);
        const bool more = visit(list);
        if (list.empty()) shard.Empty(index);
        if (!more) return;
      }
    }
  }

  void Notify() {
    if (awaiting_.load(std::memory_order_seq_cst) != 0) NotifyAwaiting();
  }
  void NotifyAwaiting();
  void Link(Block* block, bool newest);
  void Count(const Block& block);
  void Uncount(const Block& block);

  const CUdevice device_;
  const size_t total_bytes_;
  std::atomic<CUcontext> context_;
  cuda::QuietFree quiet_free_;
  std::array<Shard, kShards> shards_;
  std::atomic<uint32_t> moving_{0};  // threads
  std::atomic<uint32_t> moves_{0};
  std::atomic<uint32_t> awaiting_{0};  // threads
  std::mutex moves_mutex_;
  std::condition_variable moved_;
  std::mutex fences_mutex_;
  std::vector<Fences> spare_fences_;
  std::atomic<bool> unused_{true};
  std::atomic<size_t> driver_free_{0};
  std::atomic<uint64_t> asked_ns_{0};
  std::array<std::atomic<size_t>, 3> set_aside_{};
  std::atomic<uint64_t> live_bytes_{0};
  std::atomic<uint64_t> idle_bytes_{0};
  std::atomic<uint64_t> parked_bytes_{0};
  std::atomic<uint64_t> peak_idle_bytes_{0};
  std::atomic<uint64_t> trims_{0};
  std::atomic<uint64_t> retries_{0};
};

}  // namespace slipstream::allocator
