// Shared memory that the program is done with goes back to the system in a thread of ours.
//
// The loader processes of PyTorch hand a batch over as a file in /dev/shm that has no name any more. The training
// process maps it, copies it to the device and unmaps it, and the system takes every page back before that call
// returns: 9 ms for 77 MB, on the thread that should be launching the next step. Here the mapping is moved to other
// addresses, which costs a fiftieth of that, and is unmapped there by a thread that nobody waits for.
//
// Rules (docs/transfer.md says them for users; each has a mutant):
//   U1  The addresses are free when the call returns, as they are behind munmap.
//   U2  Only whole mappings of files in /dev/shm that have no name: nobody can look at such a file when it is gone.
//   U3  What is still to be given back is bounded, and never in the way of those who need room in /dev/shm.
//   U4  A child that is forked meanwhile inherits none of it.
//
// Threading: Mapped and Unmap from any thread, also from inside the program's own memory allocator: nothing is
//   allocated and no lock is waited for that could be held by an interrupted call; where it is held, the program's own
//   munmap is made. Nothing here calls CUDA.
// Ownership: never destroyed. After fork() the child must call neither (the shim's gate is closed there).
// Errors: none of its own; whatever fails leaves the call to the program's munmap. errno is kept.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "cuda/address_range.h"
#include "transfer/decision.h"

namespace slipstream::transfer {

class BackgroundUnmap {
 public:
  // Less costs about as much to move as to unmap.
  static constexpr size_t kLeastBytes = size_t{1} << 20;

  // What it is made with, all of it valid for ever.
  struct Parts {
    CountDecision count;
    // Starts the thread; may refuse.
    bool (*start_thread)(const char* name, void* (*body)(void*), void* argument);
    // Whether somebody follows the process's mappings on his own account (an RDMA transport's cache of registrations).
    bool (*watched)();
    // Bytes free in /dev/shm.
    uint64_t (*free_bytes)() = FreeSharedMemory;
  };

  // UINT64_MAX where it has no limit of its own, 0 where there is no telling.
  static uint64_t FreeSharedMemory();

  // `most_bytes`: that may wait to be given back, at most (U3). Looks for /dev/shm; starts no thread.
  BackgroundUnmap(uint64_t most_bytes, const Parts& parts);
  BackgroundUnmap(const BackgroundUnmap&) = delete;
  BackgroundUnmap& operator=(const BackgroundUnmap&) = delete;

  // What fits this machine and the process's cgroup: a 64th of their memory, 512 MiB at most.
  static uint64_t MostBytes();

  // After mmap(..., bytes, ..., flags, fd, ...) gave `address`; at least kLeastBytes.
  void Mapped(const void* address, size_t bytes, int flags, int fd) noexcept;

  // In place of munmap(address, bytes); at least kLeastBytes. False: nothing was done, munmap is to be called.
  bool Unmap(void* address, size_t bytes) noexcept;

 private:
  struct Job {
    char* memory;  // the pages to be given back
    size_t bytes;
    char* reservation;  // unmapped as a whole afterwards
    size_t reserved;
  };

  static void* ThreadMain(void* self);
  void Work();
  // For a call that has tried to get the lock; whether it did. A mapping that goes or comes without being entered may
  // be any of those that are: all are forgotten.
  bool Enter(const std::unique_lock<std::mutex>& lock);
  // Forgets the mappings that overlap the range; whether one of them is the range.
  bool Forget(const cuda::AddressRange& range);
  // With the lock held; `free_bytes` of /dev/shm.
  bool Room(size_t bytes, uint64_t free_bytes) const;
  // Without it: a new thread maps its stack, which is told like any mapping.
  bool Started();
  static bool MoveAway(char* memory, size_t bytes, Job* job, bool* broken);

  const uint64_t most_bytes_;
  const Parts parts_;
  dev_t shared_device_ = 0;
  bool has_shared_device_ = false;

  std::mutex mutex_;
  std::condition_variable offered_;
  std::array<cuda::AddressRange, 512> mappings_{};
  size_t mapping_count_ = 0;
  std::atomic<bool> missed_{false};  // a call did not get the lock
  std::array<Job, 64> jobs_{};       // a queue
  size_t first_job_ = 0;
  size_t job_count_ = 0;
  size_t moving_ = 0;        // jobs that are being made
  uint64_t held_bytes_ = 0;  // of all jobs, those in the making and the one in work included
  enum class Thread : uint8_t { kNone, kStarts, kRuns, kRefused };
  std::atomic<Thread> thread_{Thread::kNone};
  bool off_ = false;
};

}  // namespace slipstream::transfer
