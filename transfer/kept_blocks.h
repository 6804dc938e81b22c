// Large blocks of the host's memory that PyTorch has given back, kept for its next allocation of the same size.
//
// The C library maps a block of more than 32 MiB when it is asked for, and unmaps it when it is freed. So a program
// that makes a batch, fetches a result or writes a checkpoint at every step has the system make the same pages again
// and again: 9 ms for 64 MiB by one thread of an H200's host, where a copy into pages that are there takes 8. PyTorch's
// tensors in host memory come from one function, and go to another (c10::alloc_cpu and c10::free_cpu); these stand
// there, and nobody else's allocations are touched.
//
// Rules (docs/transfer.md says them for users):
//   K1  A block is handed out for the size that it was allocated with, to one owner at a time.
//   K2  What is kept is bounded, and goes back to its allocator when nobody has wanted it for a while, with its pages,
//       as if the program had freed it then. Until then they are not offered to the system (MADV_FREE), nor is the
//       thread woken for each of them: a training with a checkpoint of 60 blocks four times a second took 0.91 of the
//       time without both (0.86 to 1.01, on an H200's host).
//   K3  Memory that is pinned in place is not kept: to CUDA it would still be pinned when it is handed out again.
//   K4  A forked child keeps nothing and takes nothing, and inherits nothing that is kept: all goes back before fork().
//   K5  What the program has set of the memory (its protection, whether children have it) is as of new memory again.
//       Where it has locked it, mapped a file or shared memory over it or left a hole, it is not kept.
//   K6  Nothing is kept where another allocator than the C library's sees what is freed, or freed memory is filled (the
//       shim asks).
//
// Threading: any thread; one lock, held for a few steps. No CUDA. BeforeFork and AfterFork also in a signal's handler
//   that interrupts one of the others: then nothing goes back.
// Ownership: never destroyed. After fork() the child must call nothing else here (the shim's gate is closed there).
// Errors: none of its own; what cannot be entered is not kept.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "transfer/decision.h"

namespace slipstream::transfer {

class KeptBlocks {
 public:
  // Pages of less are made in less time than anybody would notice.
  static constexpr size_t kLeastBytes = size_t{2} << 20;
  static constexpr std::chrono::milliseconds kIdle{2000};

  // What it is made with, all of it valid for ever.
  struct Parts {
    CountDecision count;
    // Starts the thread that gives back; may refuse: then nothing is kept.
    bool (*start_thread)(const char* name, void* (*body)(void*), void* argument);
    // The allocator's own.
    void (*free)(void* block);
    // Bytes that may be kept in all, where so many are; asked a few times a second.
    uint64_t (*most)(uint64_t kept);
    // Whether the memory is known to be pinned in place (K3).
    bool (*pinned)(const void* block, size_t bytes);
  };

  // `most_bytes`: the policy's bound. `idle`: for how long a block is kept.
  KeptBlocks(uint64_t most_bytes, std::chrono::nanoseconds idle, const Parts& parts);
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  // A kept block of that size, whose bytes are whatever they were; null: there is none.
  void* Take(size_t bytes) noexcept;
  // The program has got this block of its allocator; at least kLeastBytes.
  void Given(void* block, size_t bytes) noexcept;
  // The program frees it. False: it is not kept, and to be freed.
  bool Keep(void* block) noexcept;

  // The process is about to fork, and has. In between nothing is kept. In a forked child, which forks in its turn, they
  // do nothing.
  void BeforeFork() noexcept;
  void AfterFork() noexcept;

  // The process has another limit for its memory: all goes back, and the bound is asked for anew.
  void LimitsChanged() noexcept;

  // Whether Keep would have a look at it: not at most of what is freed. No lock.
  bool MayConcern(const void* block) const { return given_at_[PlaceOf(block)].load(std::memory_order_relaxed) != 0; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Block {
    void* memory;
    size_t bytes;
    Clock::time_point since;
  };
  static constexpr size_t kMostBlocks = 64;

  static size_t PlaceOf(const void* block) { return (reinterpret_cast<uintptr_t>(block) * 0x9e3779b97f4a7c15U) >> 54; }
  // With the lock held.
  void Enter(void* block, size_t bytes);
  static void* ThreadMain(void* self);
  void GiveBack();
  // All that is kept goes back, and its pages to the system, also where its allocator keeps the memory.
  void Empty() noexcept;
  // With the lock held. The block at that place is nobody's afterwards.
  Block Remove(size_t place);
  uint64_t Bound();
  bool Started();
  // Whoever has the lock has it for a few steps, unless it is the calling thread, which a signal has interrupted there,
  // or one that a forked child does not have. False: not soon.
  bool LockSoon() noexcept;

  const pid_t pid_;
  const uint64_t most_bytes_;
  const std::chrono::nanoseconds idle_;
  const Parts parts_;

  std::mutex mutex_;
  std::unordered_map<void*, size_t> given_;             // that the program has
  std::array<std::atomic<uint32_t>, 1024> given_at_{};  // how many of them, by PlaceOf
  std::array<Block, kMostBlocks> blocks_{};             // the oldest first
  size_t count_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t bound_ = 0;
  Clock::time_point bound_of_{};
  bool thread_runs_ = false;
  std::atomic<int> forks_{0};  // that are under way
};

}  // namespace slipstream::transfer
