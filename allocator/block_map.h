// Blocks by address, in as many parts as threads seldom meet in.
//
// A block stays here from the driver's allocation of it to its release, live or idle: the way from an address to its
// block is one lookup, and an allocation that is served from the pool changes nothing here.
// Threading: any thread. A part's lock is held for a lookup, never while calling anything (S55).
// Ownership: the map owns the blocks, but for one in a free list whose address has become another block's.
#pragma once

#include <cuda.h>

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/block.h"

namespace slipstream::allocator {

class BlockMap {
 public:
  // What is known of the address is out of date: the driver does not give out one address twice.
  void Insert(std::unique_ptr<Block> block) {
    Part& part = PartOf(block->address);
    const std::lock_guard lock(part.mutex);
    std::unique_ptr<Block>& place = part.blocks[block->address];
    // One that is in a free list stays there until somebody takes it, and finds that it is not what it was.
    if (place != nullptr && place->state.load(std::memory_order_relaxed) == BlockState::kIdle) (void)place.release();
    place = std::move(block);
  }

  // The end of a block that is the caller's and in no list.
  void Delete(Block* block) {
    Part& part = PartOf(block->address);
    const std::lock_guard lock(part.mutex);
    const auto found = part.blocks.find(block->address);
    if (found != part.blocks.end() && found->second.get() == block) {
      part.blocks.erase(found);
    } else {
      delete block;
    }
  }

  // The program frees the address. A live block becomes the caller's, idle and in no list yet; *was_idle says that the
  // block is idle already: the address is freed twice.
  Block* Free(CUdeviceptr address, bool* was_idle) {
    *was_idle = false;
    Part& part = PartOf(address);
    const std::lock_guard lock(part.mutex);
    const auto found = part.blocks.find(address);
    if (found == part.blocks.end()) return nullptr;
    Block* const block = found->second.get();
    *was_idle = block->state.exchange(BlockState::kIdle, std::memory_order_acq_rel) == BlockState::kIdle;
    return *was_idle ? nullptr : block;
  }

  // The block at the address becomes one that is not used again. It is the program's; null: there is none.
  Block* MarkShared(CUdeviceptr address) {
    Part& part = PartOf(address);
    const std::lock_guard lock(part.mutex);
    const auto found = part.blocks.find(address);
    if (found == part.blocks.end()) return nullptr;
    found->second->shared.store(true, std::memory_order_relaxed);
    return found->second.get();
  }

  // Forgets all blocks of the pool.
  void RemoveAllOf(const DevicePool* pool) {
    for (Part& part : parts_) {
      const std::lock_guard lock(part.mutex);
      std::erase_if(part.blocks, [pool](const auto& entry) { return entry.second->pool == pool; });
    }
  }

 private:
  static constexpr size_t kParts = 64;
  struct alignas(64) Part {
    std::mutex mutex;
    std::unordered_map<CUdeviceptr, std::unique_ptr<Block>> blocks;
  };

  // Large allocations lie at multiples of 2 MiB, small ones at multiples of 512 bytes: both kinds spread.
  Part& PartOf(CUdeviceptr address) { return parts_[((address >> 21) ^ (address >> 9)) % kParts]; }

  std::array<Part, kParts> parts_;
};

}  // namespace slipstream::allocator
