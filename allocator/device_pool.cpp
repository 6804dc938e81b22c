#include "allocator/device_pool.h"

#include <chrono>
#include <utility>

#include "cuda/sharded.h"

namespace slipstream::allocator {
namespace {

size_t OwnShard() { return cuda::ThreadNumber() % DevicePool::kShards; }

}  // namespace

void DevicePool::Count(const Block& block) {
  const size_t taken = TakenFromDriver(block.bytes);
  const uint64_t idle = idle_bytes_.fetch_add(taken, std::memory_order_seq_cst) + taken;
  if (!block.passed) parked_bytes_.fetch_add(taken, std::memory_order_relaxed);
  uint64_t peak = peak_idle_bytes_.load(std::memory_order_relaxed);
  while (peak < idle && !peak_idle_bytes_.compare_exchange_weak(peak, idle, std::memory_order_relaxed)) {
  }
}

void DevicePool::Uncount(const Block& block) {
  const size_t taken = TakenFromDriver(block.bytes);
  idle_bytes_.fetch_sub(taken, std::memory_order_relaxed);
  if (!block.passed) parked_bytes_.fetch_sub(taken, std::memory_order_relaxed);
}

void DevicePool::List::PushPassed(Block* block) {
  block->next = passed;
  passed = block;
}

void DevicePool::List::PushPending(Block* block, bool first) {
  if (pending == nullptr) {
    block->next = nullptr;
    pending = pending_last = block;
  } else if (first) {
    block->next = pending;
    pending = block;
  } else {
    block->next = nullptr;
    pending_last->next = block;
    pending_last = block;
  }
}

Block* DevicePool::List::UnlinkPassed(Block* before) {
  Block*& link = before != nullptr ? before->next : passed;
  Block* const block = link;
  link = block->next;
  block->next = nullptr;
  return block;
}

Block* DevicePool::List::UnlinkPending(Block* before) {
  Block*& link = before != nullptr ? before->next : pending;
  Block* const block = link;
  link = block->next;
  if (pending_last == block) pending_last = before;
  block->next = nullptr;
  return block;
}

// Of those that have passed first.
template <typename Wanted>
Block* DevicePool::List::TakeFirst(const Wanted& wanted, Which which) {
  Block* before = nullptr;
  for (Block* block = passed; block != nullptr; before = block, block = block->next) {
    if (wanted(*block)) return UnlinkPassed(before);
  }
  if (which == Which::kPassed) return nullptr;
  before = nullptr;
  for (Block* block = pending; block != nullptr; before = block, block = block->next) {
    if (wanted(*block)) return UnlinkPending(before);
  }
  return nullptr;
}

void DevicePool::Link(Block* block, bool newest) {
  Count(*block);
  const size_t index = SizeClassOf(block->bytes);
  Shard& shard = shards_[block->shard];
  List& list = shard.lists[index];
  const std::lock_guard lock(list.mutex);
  if (list.empty()) shard.Fill(index);
  if (block->passed) {
    list.PushPassed(block);
  } else {
    list.PushPending(block, !newest);
  }
}

void DevicePool::Put(Block* block) {
  block->shard = static_cast<uint8_t>(OwnShard());
  Link(block, true);
}

void DevicePool::PutBack(Block* block) { Link(block, false); }

Block* DevicePool::Take(size_t bytes, size_t most) {
  for (size_t shard = 0; shard < kShards; ++shard) {
    if (Block* const block = Take(shard, bytes, most)) return block;
  }
  return nullptr;
}

Block* DevicePool::Take(size_t from, size_t bytes, size_t most) {
  Shard& shard = shards_[(OwnShard() + from) % kShards];
  const size_t last = SizeClassOf(most);
  const auto fits = [bytes, most](const Block& block) { return block.bytes >= bytes && block.bytes <= most; };
  for (size_t index = SizeClassOf(bytes); index <= last; ++index) {
    if (!shard.MayHave(index)) continue;
    List& list = shard.lists[index];
    const std::lock_guard lock(list.mutex);
    if (Block* const found = list.TakeFirst(fits, Which::kAll)) {
      if (list.empty()) shard.Empty(index);
      Uncount(*found);
      return found;
    }
  }
  return nullptr;
}

Block* DevicePool::TakeOlderThan(uint64_t time_ns, Which which) {
  Block* found = nullptr;
  ForEachList([&found, time_ns, which](List& list) {
    found = list.TakeFirst([time_ns](const Block& block) { return block.idle_since_ns < time_ns; }, which);
    return found == nullptr;
  });
  if (found != nullptr) Uncount(*found);
  return found;
}

void DevicePool::NotifyAwaiting() {
  const std::lock_guard lock(moves_mutex_);
  moved_.notify_all();
}

bool DevicePool::AwaitMove(uint32_t seen) {
  constexpr auto kLongest = std::chrono::seconds(1);
  awaiting_.fetch_add(1, std::memory_order_seq_cst);
  {
    std::unique_lock lock(moves_mutex_);
    moved_.wait_for(lock, kLongest,
                    [this, seen] { return moves() != seen || moving_.load(std::memory_order_seq_cst) == 0; });
  }
  awaiting_.fetch_sub(1, std::memory_order_seq_cst);
  return moves() != seen;
}

void DevicePool::Clear() {
  quiet_free_.Forget();
  while (TakeOlderThan(UINT64_MAX, Which::kAll) != nullptr) {
  }
  const std::lock_guard lock(fences_mutex_);
  spare_fences_.clear();
  live_bytes_.store(0, std::memory_order_relaxed);
  unused_.store(true, std::memory_order_relaxed);
}

Fences DevicePool::TakeFences() {
  const std::lock_guard lock(fences_mutex_);
  if (spare_fences_.empty()) return {};
  Fences fences = std::move(spare_fences_.back());
  spare_fences_.pop_back();
  return fences;
}

void DevicePool::GiveFences(Fences fences) {
  const std::lock_guard lock(fences_mutex_);
  spare_fences_.push_back(std::move(fences));
}

size_t DevicePool::LargestIdle() {
  size_t largest = 0;
  for (Shard& shard : shards_) {
    const size_t least = SizeClassOf(std::max<size_t>(largest, 1));
    for (size_t index = kSizeClasses; index-- != least;) {
      if (!shard.MayHave(index)) continue;
      List& list = shard.lists[index];
      const std::lock_guard lock(list.mutex);
      if (list.empty()) continue;  // taken meanwhile
      for (const Block* first : {list.passed, list.pending}) {
        for (const Block* block = first; block != nullptr; block = block->next) {
          largest = std::max(largest, block->bytes);
        }
      }
      break;
    }
  }
  return largest;
}

PoolFigures DevicePool::Figures() const {
  PoolFigures figures;
  figures.live_bytes = live_bytes_.load(std::memory_order_relaxed);
  figures.idle_bytes = idle_bytes_.load(std::memory_order_relaxed);
  figures.parked_bytes = parked_bytes_.load(std::memory_order_relaxed);
  figures.peak_idle_bytes = peak_idle_bytes_.load(std::memory_order_relaxed);
  figures.trims = trims_.load(std::memory_order_relaxed);
  figures.retries = retries_.load(std::memory_order_relaxed);
  return figures;
}

}  // namespace slipstream::allocator
