// What the engine remembers for each thread of the program: the copy it has just promoted, and the waits it has
// deferred.
//
// Threading: a thread touches its own only. Trivial to construct and destroy: it lives in the static TLS block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/fence.h"
#include "cuda/stream_ref.h"
#include "cuda/thread_work.h"
#include "policy/transfer_plan.h"

namespace slipstream::transfer {

// The promoted copy that a synchronization of the same stream may follow immediately (S09).
struct Candidate {
  bool valid = false;
  bool destination_may_be_shared = false;
  bool small = false;         // at most kSmallCopyBytes
  policy::TransferPlan plan;  // what the policy makes of the copy
  cuda::StreamKey stream;
};

// A synchronization that was skipped: on each stream the newest stands for the older ones.
struct Deferred {
  cuda::StreamKey stream;
  cuda::Fence* fence = nullptr;  // held
  uint64_t mark = 0;             // of EventMarks' counter
};

// Pages of the host that were pinned when the thread asked about them. Memory is pinned by whole pages.
struct PinnedPages {
  static constexpr size_t kPlaces = 32;
  static constexpr uintptr_t kPageBytes = 4096;  // the smallest there are

  uint64_t life = 0;  // of what is remembered: that of the engine's pinned memory
  uintptr_t pages[kPlaces] = {};

  static uintptr_t PageOf(const void* address) { return reinterpret_cast<uintptr_t>(address) / kPageBytes; }
  // A loader's buffers lie megabytes apart.
  static size_t PlaceOf(uintptr_t page) { return (page ^ page >> 8 ^ page >> 16) % kPlaces; }
};

struct ThreadState {
  static constexpr size_t kMaxDeferred = 8;

  uint64_t id = 0;  // the engine's number for the thread; 0: none yet
  Candidate candidate;
  Deferred deferred[kMaxDeferred];
  size_t deferred_count = 0;
  PinnedPages pinned;
  uint32_t small_page = 0;  // of SmallStaging, that it used last
  cuda::ThreadWork::Mine work = {};
};

}  // namespace slipstream::transfer
