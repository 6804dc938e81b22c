// When and where the program's events were last recorded: the time is a number of one counter, which what is deferred
// has too. So a query of an event need wait only for what was deferred behind it (S13, S63).
//
// Threading: any thread.
// Hazard: an event that is recorded where no hook sees it is unknown, or known by an older number; both count as
//   recorded early, which makes a query wait for what the program's own synchronization had waited for, no more.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "cuda/driver.h"
#include "cuda/stream_ref.h"

namespace slipstream::cuda {

class EventMarks {
 public:
  struct Recording {
    uint64_t mark = 0;    // 0: unknown
    StreamKey stream;     // no handle: unknown, or gone
    bool in_all = false;  // of all streams
  };

  // Of what is deferred: younger than everything that was recorded before.
  uint64_t Next() { return counter_.fetch_add(1, std::memory_order_seq_cst) + 1; }

  void Recorded(CUevent event, const StreamKey& stream) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    shard.recordings[event] = {.mark = Now(), .stream = stream};
  }
  void RecordedInAll(CUevent event) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    shard.recordings[event] = {.mark = Now(), .stream = {}, .in_all = true};
  }
  void Destroyed(CUevent event) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    shard.recordings.erase(event);
  }
  Recording LastOf(CUevent event) {
    Shard& shard = ShardOf(event);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.recordings.find(event);
    return found != shard.recordings.end() ? found->second : Recording();
  }
  // The stream is being destroyed: its handle may come back as another stream.
  void Retire(CUstream handle) {
    for (Shard& shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      for (auto& [event, recording] : shard.recordings) {
        if (recording.stream.handle == handle) recording.stream = {};
      }
    }
  }

 private:
  // Many record at a time, and few owe: nobody writes to the counter but those.
  uint64_t Now() const { return counter_.load(std::memory_order_seq_cst); }

  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<CUevent, Recording> recordings;
  };

  Shard& ShardOf(CUevent event) { return shards_[(reinterpret_cast<uintptr_t>(event) >> 6) % kShards]; }

  std::atomic<uint64_t> counter_{1};  // 0 is unknown
  std::array<Shard, kShards> shards_;
};

}  // namespace slipstream::cuda
