// Where small copies wait for their DMA: pages of pinned memory, each filled by one thread for one stream.
//
// A page belongs to one thread and one stream while it is open, so the last fence of it stands for all copies in it:
// they run in the stream's order. It is used again when that fence has passed.
//
// Threading: every function from any thread. Each page has a lock of its own, so threads that copy seldom meet: another
//   thread's page is locked to find out whether it is free, and one that is locked counts as in use. The driver is
//   asked under it whether fences have passed; nothing that synchronizes is called under it (S55).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "cuda/fence.h"
#include "cuda/stream_ref.h"
#include "policy/transfer_plan.h"

namespace slipstream::transfer {

using policy::kSmallCopyBytes;

class SmallStaging {
 public:
  static constexpr size_t kPageBytes = kSmallCopyBytes;
  static constexpr size_t kBytes = size_t{4} << 20;

  struct Place {
    char* memory = nullptr;  // null: every page is in flight
    uint32_t page = 0;
  };

  // `memory`: kBytes of pinned memory.
  void Provide(char* memory);
  bool ready() const { return memory_.load(std::memory_order_acquire) != nullptr; }

  // Room for `bytes` (at most kSmallCopyBytes). What was taken must be committed or cancelled.
  // `context`: the stream's; two have a default stream of the same name. `thread`: the calling one's number, not 0, and
  // `recent` its own too: the page that it used last, at first 0.
  Place Take(CUcontext context, const cuda::StreamKey& stream, uint64_t thread, uint32_t& recent, size_t bytes);
  // `fence` is behind the copy, on the stream.
  void Commit(const Place& place, cuda::FenceRef fence);
  // No copy was enqueued.
  void Cancel(const Place& place);

  // The stream is being destroyed: its handle may come back as another stream, whose fences say nothing about this
  // one's copies.
  void Retire(CUstream handle);

  // Some page's fence, to wait for; empty when none is in flight. Only the broken rule S08 waits.
  cuda::FenceRef AnyInFlight();

 private:
  static constexpr uint32_t kPages = kBytes / kPageBytes;
  static constexpr size_t kAlignment = 64;

  struct alignas(64) Page {
    std::mutex mutex;
    // Written with the lock held. That a page is a thread's own, only that thread writes, and looks for without it.
    std::atomic<uint64_t> thread{0};  // 0: nobody's
    std::atomic<uint32_t> used{0};
    CUcontext context = nullptr;
    cuda::StreamKey stream;
    uint32_t open_copies = 0;  // taken, not committed
    cuda::FenceRef fence;

    bool Idle() const { return open_copies == 0 && (!fence || fence.Done()); }
    bool HasRoom(uint64_t for_thread, uint32_t bytes) const {
      return thread.load(std::memory_order_relaxed) == for_thread &&
             used.load(std::memory_order_relaxed) + bytes <= kPageBytes;
    }
  };
  // A page and its lock; no page: none was found.
  struct Locked {
    std::unique_lock<std::mutex> lock;
    uint32_t page = kPages;
  };

  Locked FindOpen(CUcontext context, const cuda::StreamKey& stream, uint64_t thread, uint32_t recent, uint32_t bytes);
  Locked FindIdle(uint32_t recent);

  std::atomic<char*> memory_{nullptr};
  std::array<Page, kPages> pages_;
  std::atomic<uint32_t> newest_{0};  // the page that was opened last
};

}  // namespace slipstream::transfer
