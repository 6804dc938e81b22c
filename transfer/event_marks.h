// When the program's events were last recorded, as numbers of one counter: so that a query of an event that was
// recorded after a skipped synchronise need not wait for anything (S13).
//
// Threading: any thread.
// Hazard: an event that is recorded where no hook sees it is unknown, or known by an older number; both count as
// recorded
//   early, which makes a query wait for what the program's own synchronise had waited for, no more.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "transfer/driver.h"

namespace slipstream::transfer {

class EventMarks {
 public:
  uint64_t Next() { return counter_.fetch_add(1, std::memory_order_relaxed) + 1; }

  void Recorded(CUevent event) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    shard.marks[event] = Next();
  }
  void Destroyed(CUevent event) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    shard.marks.erase(event);
  }
  // 0: unknown.
  uint64_t MarkOf(CUevent event) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.marks.find(event);
    return found != shard.marks.end() ? found->second : 0;
  }

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<CUevent, uint64_t> marks;
  };

  Shard& ShardOf(CUevent event) { return shards_[(reinterpret_cast<uintptr_t>(event) >> 6) % kShards]; }

  std::atomic<uint64_t> counter_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace slipstream::transfer
