// What the process has deferred: the synchronizations that were skipped, by whatever thread. At most two a stream
// (S23), so the host runs no further ahead than that; and a query of any thread finds what covers it (S63).
//
// A program that makes blocking copies is one copy ahead of its device; two keep the device busy while the host
// prepares the next step, and more would let a fast host fill memory with steps that have not run.
// Threading: any thread. Each stream's waits lie behind one of several locks, which is held while the driver is asked
//   whether a fence has passed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/fence.h"
#include "cuda/sharded.h"
#include "cuda/stream_ref.h"

namespace slipstream::cuda {

class RunAhead {
 public:
  static constexpr size_t kDeferredAStream = 2;
  // So many deferred waits of streams that are gone, of those with one lock, are looked through for those that are
  // done.
  static constexpr size_t kManyOrphans = 8;

  struct DeferredWait {
    FenceRef fence;     // behind all work of the stream when the synchronization was skipped
    uint64_t mark = 0;  // of EventMarks' counter, as late as that
    StreamKey stream;   // no handle: one that is gone
  };

  // The fence to wait for before another synchronization of the stream may be deferred; empty: none. The youngest is
  // asked first: where that has passed so have all, and the next two need no question, which costs 0.1 to 1.5 us where
  // the answer is yes (measured on several H200). `running`, unless null: the youngest, if the driver says that it has
  // not passed.
  FenceRef MustWaitFor(const StreamKey& stream, FenceRef* running = nullptr) {
    Shard& shard = ShardOf(stream);
    const std::lock_guard lock(shard);
    const auto found = shard.deferred.find(stream);
    if (found == shard.deferred.end()) return {};
    Deferred& deferred = found->second;
    if (!deferred.front().fence) return {};
    const CUresult youngest = deferred.back().fence.Ask();
    if (youngest == CUDA_SUCCESS) {
      deferred = {};
      return {};
    }
    if (running != nullptr && youngest == CUDA_ERROR_NOT_READY) *running = deferred.back().fence;
    return deferred.front().fence.Done() ? FenceRef() : deferred.front().fence;
  }
  void Defer(const StreamKey& stream, const FenceRef& fence, uint64_t mark) {
    Shard& shard = ShardOf(stream);
    const std::lock_guard lock(shard);
    if (shard.orphans.size() >= kManyOrphans) shard.EraseOrphans();
    Deferred& deferred = shard.deferred[stream];
    deferred[0] = std::move(deferred[1]);
    deferred[1] = {fence, mark, stream};
    uint64_t newest = newest_.load(std::memory_order_relaxed);
    while (newest < mark && !newest_.compare_exchange_weak(newest, mark, std::memory_order_seq_cst)) {
    }
  }

  // Whether anything may be deferred that is younger than the mark. Takes no lock and asks nobody. Sequentially
  // consistent: one thread enters a deferred wait and looks whether there is a second context, another one says that
  // there is and looks here.
  bool MayBeOpenSince(uint64_t mark) const { return newest_.load(std::memory_order_seq_cst) > mark; }
  bool MayBeOpen() const { return MayBeOpenSince(0); }
  // All that is deferred by whatever thread and not done, the oldest first.
  std::vector<DeferredWait> Open() {
    std::vector<DeferredWait> open;
    const AllLocked all(shards_);  // or something could be deferred that nobody has seen when newest_ goes back
    shards_.ForEach([&](Shard& shard) {
      shard.EraseOrphans();
      open.insert(open.end(), shard.orphans.begin(), shard.orphans.end());
      for (const auto& [stream, deferred] : shard.deferred) {
        for (const DeferredWait& wait : deferred) {
          if (wait.fence && !wait.fence.Done()) open.push_back(wait);
        }
      }
    });
    if (open.empty()) newest_.store(0, std::memory_order_release);
    std::sort(open.begin(), open.end(),
              [](const DeferredWait& one, const DeferredWait& other) { return one.mark < other.mark; });
    return open;
  }

  // The stream is being destroyed: its handle may come back as another stream. Nobody is asked: another thread may be
  // capturing, and a thread that ends cannot ask.
  void Retire(CUstream handle) {
    if (handle == nullptr) return;
    RetireIf([handle](const StreamKey& stream) { return stream.handle == handle; });
  }
  // So is the thread's own default stream, and its number does not come back.
  void ThreadEnded(uint64_t thread) {
    if (thread == 0) return;  // of streams that are no thread's
    RetireIf([thread](const StreamKey& stream) { return stream.thread == thread; });
  }

 private:
  struct Hash {
    size_t operator()(const StreamKey& key) const {
      return std::hash<const void*>()(key.handle) ^ (std::hash<uint64_t>()(key.thread) << 1);
    }
  };
  using Deferred = std::array<DeferredWait, kDeferredAStream>;  // the last ones, oldest first

  // The streams of one hash.
  struct Shard {
    std::mutex mutex;
    std::unordered_map<StreamKey, Deferred, Hash> deferred;
    std::vector<DeferredWait> orphans;  // of streams that are gone

    void lock() { mutex.lock(); }
    void unlock() { mutex.unlock(); }
    // With the lock held.
    void EraseOrphans() {
      std::erase_if(orphans, [](const DeferredWait& wait) { return wait.fence.Done(); });
    }
  };

  // Handles are addresses of large objects.
  Shard& ShardOf(const StreamKey& stream) { return shards_.Of(Hash()(stream) >> 6 ^ stream.thread); }

  template <typename Is>
  void RetireIf(const Is& is) {
    shards_.ForEach([&](Shard& shard) {
      const std::lock_guard lock(shard);
      for (auto entry = shard.deferred.begin(); entry != shard.deferred.end();) {
        if (!is(entry->first)) {
          ++entry;
          continue;
        }
        for (const DeferredWait& wait : entry->second) {
          if (wait.fence && !wait.fence.KnownDone()) shard.orphans.push_back({wait.fence, wait.mark, {}});
        }
        entry = shard.deferred.erase(entry);
      }
    });
  }

  std::atomic<uint64_t> newest_{0};  // mark of the youngest deferred wait; 0: all are settled. With a shard's lock held
  Sharded<Shard> shards_;
};

}  // namespace slipstream::cuda
