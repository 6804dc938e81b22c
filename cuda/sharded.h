// Several of one thing, so that threads need not meet in it: each thread has one of them for its own use as long as
// there are no more threads than shards, and whoever must know of all looks into one after the other.
//
// Threading: choosing a shard takes no lock. What a shard holds has a lock of its own: another thread may look in.
// Hazard: whoever looks into one after the other has not seen all of them at one moment; AllLocked has.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace slipstream::cuda {

// 1, 2, 3, ...: nobody else's, ever.
inline uint64_t NextNumber() {
  static constinit std::atomic<uint64_t> numbers{0};
  return numbers.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Of the calling thread, in the order in which threads ask.
inline uint64_t ThreadNumber() {
  static constinit thread_local uint64_t t_number = 0;
  if (t_number == 0) t_number = NextNumber();
  return t_number;
}

template <typename Shard>
class Sharded {
 public:
  static constexpr size_t kShards = 16;

  // Of the calling thread.
  Shard& Mine() { return shards_[ThreadNumber() % kShards].shard; }
  // Of what has this hash.
  Shard& Of(size_t hash) { return shards_[hash % kShards].shard; }

  // Calls look(shard) for each, the calling thread's first, until one answers true; whether one did.
  template <typename Look>
  bool AnyFromMine(const Look& look) {
    for (size_t i = 0, first = ThreadNumber(); i < kShards; ++i) {
      if (look(Of(first + i))) return true;
    }
    return false;
  }
  // Calls work(shard) for each, in an order that is the same for every thread.
  template <typename Work>
  void ForEach(const Work& work) {
    for (Padded& padded : shards_) work(padded.shard);
  }

 private:
  // In cache lines of its own.
  struct alignas(64) Padded {
    Shard shard;
  };

  std::array<Padded, kShards> shards_;
};

// Holds the lock of every shard while it lives; always in the same order, so two of them wait for each other and no
// more.
template <typename Shard>
class AllLocked {
 public:
  explicit AllLocked(Sharded<Shard>& shards) : shards_(shards) {
    shards_.ForEach([](Shard& shard) { shard.lock(); });
  }
  ~AllLocked() {
    shards_.ForEach([](Shard& shard) { shard.unlock(); });
  }
  AllLocked(const AllLocked&) = delete;
  AllLocked& operator=(const AllLocked&) = delete;

 private:
  Sharded<Shard>& shards_;
};

}  // namespace slipstream::cuda
