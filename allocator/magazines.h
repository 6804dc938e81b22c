// What threads freed a moment ago, in front of a heap: the same thread has it again, for the same stream and size,
// without the heap's lock. Training loops free and allocate the same sizes over and over, and with several threads the
// heap's lock, and its tables that move from processor to processor with it, cost more than the work under it.
//
//   Take       a block that the calling thread's slot has; else the heap's
//   HandedOut  behind an allocation of the heap's: its size is remembered, so that a free need not ask
//   Keep       a free of a block that is remembered; else, or with a full slot, the heap's
//   Drain...   under the heap's lock: what the slots hold becomes the heap's
//
// To the heap a block in a slot is live. What is remembered of a block holds until the heap itself frees it: each such
// free changes the number beside the block's address (Forget). A free of the heap's of a block that a slot holds is the
// program's second one: MayHold tells, so that the slots are drained first and the free is refused (S34).
//
// Threading: any thread. A slot belongs to one thread, or to few where there are more threads than slots, and has a
// lock for moments. Order of locks: the heap's, then a slot's.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "allocator/stream_name.h"
#include "cuda/mutant.h"
#include "cuda/sharded.h"

namespace slipstream::allocator {

class Magazines {
 public:
  struct Freed {
    CUdeviceptr address = 0;
    uint64_t asked = 0;
    StreamName stream;
    uint32_t number = 0;  // beside the address when the heap handed it out
  };

  Magazines() = default;
  Magazines(const Magazines&) = delete;
  Magazines& operator=(const Magazines&) = delete;

  // 0: none is there.
  CUdeviceptr Take(const StreamName& stream, uint64_t asked) {
    Slot& slot = Mine();
    if (slot.count.load(std::memory_order_relaxed) == 0) return 0;
    const Held held(slot);
    for (uint32_t i = slot.count.load(std::memory_order_relaxed); i-- > 0;) {  // the newest first
      const Freed found = slot.freed[i];
      if (found.asked != asked || (found.stream != stream && !Broken(Mutant::kS38))) continue;
      slot.Remove(i);
      slot.Remember({.address = found.address, .asked = asked, .number = found.number});
      Beside(found.address).fetch_sub(kOne, std::memory_order_acq_rel);
      return found.address;
    }
    return 0;
  }

  void HandedOut(CUdeviceptr address, uint64_t asked) {
    Slot& slot = Mine();
    const Held held(slot);
    slot.Remember({.address = address, .asked = asked, .number = NumberOf(Beside(address))});
  }

  // False: nothing is remembered of the block, or the slot is full. *asked is what was asked for it.
  bool Keep(CUdeviceptr address, const StreamName& stream, uint64_t* asked) {
    Slot& slot = Mine();
    const Held held(slot);
    if (slot.count.load(std::memory_order_relaxed) == kFreed) return false;
    for (Live& live : slot.live) {
      if (live.address != address) continue;
      std::atomic<uint64_t>& beside = Beside(address);
      const bool holds = NumberOf(beside) == live.number;
      const Live block = live;
      live = {};
      if (!holds) return false;
      beside.fetch_add(kOne, std::memory_order_acq_rel);
      slot.Add({.address = address, .asked = block.asked, .stream = stream, .number = block.number});
      *asked = block.asked;
      return true;
    }
    return false;
  }

  bool MineIsFull() { return Mine().count.load(std::memory_order_relaxed) == kFreed; }

  // The heap frees the block itself: nobody remembers it.
  void Forget(CUdeviceptr address) { Beside(address).fetch_add(kNumber, std::memory_order_acq_rel); }
  // Whether a slot may hold the block.
  bool MayHold(CUdeviceptr address) { return (Beside(address).load(std::memory_order_acquire) & (kNumber - 1)) != 0; }

  // Under the heap's lock: everything that is held, or held by the calling thread's slot, to free(Freed).
  template <typename Free>
  void DrainAll(const Free& free) {
    for (Slot& slot : slots_) Drain(slot, free);
  }
  template <typename Free>
  void DrainMine(const Free& free) {
    Drain(Mine(), free);
  }

 private:
  static constexpr size_t kSlots = 64;
  static constexpr uint32_t kFreed = 4;
  static constexpr uint32_t kRemembered = 16;
  // Beside an address: how many blocks with its hash are in slots, and a number that each free of the heap's changes.
  static constexpr uint64_t kOne = 1;
  static constexpr uint64_t kNumber = uint64_t{1} << 32;
  static constexpr size_t kPlaces = 4096;

  struct Live {
    CUdeviceptr address = 0;
    uint64_t asked = 0;
    uint32_t number = 0;
  };

  struct alignas(64) Slot {
    std::atomic<bool> locked{false};
    std::atomic<uint32_t> count{0};  // of freed; written under the lock
    uint32_t next_live = 0;
    std::array<Freed, kFreed> freed;
    std::array<Live, kRemembered> live;

    void Remember(const Live& block) { live[next_live++ % kRemembered] = block; }
    void Add(const Freed& block) {
      const uint32_t at = count.load(std::memory_order_relaxed);
      freed[at] = block;
      count.store(at + 1, std::memory_order_relaxed);
    }
    void Remove(uint32_t at) {
      const uint32_t rest = count.load(std::memory_order_relaxed) - 1;
      for (uint32_t i = at; i < rest; ++i) freed[i] = freed[i + 1];
      count.store(rest, std::memory_order_relaxed);
    }
  };

  class Held {
   public:
    explicit Held(Slot& slot) : slot_(slot) {
      for (int tries = 1; slot_.locked.exchange(true, std::memory_order_acquire); ++tries) {
        if (tries % 64 == 0) std::this_thread::yield();
      }
    }
    ~Held() { slot_.locked.store(false, std::memory_order_release); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Slot& slot_;
  };

  Slot& Mine() { return slots_[cuda::ThreadNumber() % kSlots]; }
  std::atomic<uint64_t>& Beside(CUdeviceptr address) {
    constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;  // Knuth's multiplicative hash
    static_assert(kPlaces == size_t{1} << 12);
    return beside_[(address >> 9) * kGolden >> (64 - 12)];
  }
  static uint32_t NumberOf(const std::atomic<uint64_t>& beside) {
    return static_cast<uint32_t>(beside.load(std::memory_order_acquire) / kNumber);
  }

  template <typename Free>
  void Drain(Slot& slot, const Free& free) {
    if (slot.count.load(std::memory_order_relaxed) == 0) return;
    const Held held(slot);
    const uint32_t count = slot.count.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < count; ++i) {
      free(slot.freed[i]);
      Beside(slot.freed[i].address).fetch_sub(kOne, std::memory_order_acq_rel);
    }
    slot.count.store(0, std::memory_order_relaxed);
  }

  std::array<Slot, kSlots> slots_;
  std::array<std::atomic<uint64_t>, kPlaces> beside_{};
};

}  // namespace slipstream::allocator
