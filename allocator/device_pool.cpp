#include "allocator/device_pool.h"

#include <chrono>
#include <utility>

namespace slipstream::allocator {

void DevicePool::Count(const Block& block) {
  const uint64_t idle = idle_bytes_.fetch_add(block.bytes, std::memory_order_seq_cst) + block.bytes;
  if (!block.passed) parked_bytes_.fetch_add(block.bytes, std::memory_order_relaxed);
  uint64_t peak = peak_idle_bytes_.load(std::memory_order_relaxed);
  while (peak < idle && !peak_idle_bytes_.compare_exchange_weak(peak, idle, std::memory_order_relaxed)) {
  }
}

void DevicePool::Uncount(const Block& block) {
  idle_bytes_.fetch_sub(block.bytes, std::memory_order_relaxed);
  if (!block.passed) parked_bytes_.fetch_sub(block.bytes, std::memory_order_relaxed);
}

void DevicePool::Put(Block* block) {
  Count(*block);
  List& list = lists_[SizeClassOf(block->bytes)];
  const std::lock_guard lock(list.mutex);
  block->next = nullptr;
  (list.last != nullptr ? list.last->next : list.first) = block;
  list.last = block;
}

void DevicePool::PutBack(Block* block) {
  Count(*block);
  List& list = lists_[SizeClassOf(block->bytes)];
  const std::lock_guard lock(list.mutex);
  block->next = list.first;
  list.first = block;
  if (list.last == nullptr) list.last = block;
}

// Takes the block behind `before` (null: the first) out of the list.
Block* DevicePool::Unlink(List& list, Block* before) {
  Block* const block = before != nullptr ? before->next : list.first;
  (before != nullptr ? before->next : list.first) = block->next;
  if (list.last == block) list.last = before;
  block->next = nullptr;
  Uncount(*block);
  return block;
}

Block* DevicePool::Take(size_t bytes, size_t most) {
  const size_t last = SizeClassOf(most);
  for (size_t index = SizeClassOf(bytes); index <= last; ++index) {
    List& list = lists_[index];
    const std::lock_guard lock(list.mutex);
    bool found = false;
    Block* before_found = nullptr;
    Block* before = nullptr;
    for (Block* block = list.first; block != nullptr; before = block, block = block->next) {
      if (block->bytes < bytes || block->bytes > most || (found && !block->passed)) continue;
      found = true;
      before_found = before;
    }
    if (found) return Unlink(list, before_found);
  }
  return nullptr;
}

Block* DevicePool::TakeOlderThan(uint64_t time_ns) {
  for (List& list : lists_) {
    const std::lock_guard lock(list.mutex);
    Block* before = nullptr;
    for (Block* block = list.first; block != nullptr; before = block, block = block->next) {
      if (block->idle_since_ns < time_ns) return Unlink(list, before);
    }
  }
  return nullptr;
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
  while (TakeOlderThan(UINT64_MAX) != nullptr) {
  }
  const std::lock_guard lock(fences_mutex_);
  spare_fences_.clear();
  live_bytes_.store(0, std::memory_order_relaxed);
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
