// Which threads submit work, and to which streams: whether a thread beside the calling one has work of its own, that a
// hold of the whole context would keep waiting (S65), or that the work in front of the hold may be waiting for (S74).
//
// A thread has work of its own where it has lately submitted some to another stream than the one in question: a thread
// that serves requests, or prefetches, beside one that trains. Whether it also uses the stream in question says nothing
// about the rest. PyTorch's autograd threads work on the stream of the thread that called them. What they submit to the
// streams of collectives by the collectives' own library is not counted by the callers of Submitted.
//
// "Lately" is counted in turns, one for each time that a hold was in question: a synchronization that could have been
// skipped, a small copy that is left alone because it could not, a pooled block whose work is pending.
//
// Threading: any thread, no lock. A slot is written by the thread that it belongs to; Submitted touches nothing else
// but the turn, which is read.
// Errors: where there are more threads than slots, every one of them counts as having work of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cuda/stream_ref.h"

namespace slipstream::cuda {

class ThreadWork {
 public:
  static constexpr size_t kThreads = 256;
  static constexpr size_t kStreams = 7;  // of each thread, the ones that it used last
  static constexpr uint64_t kLately = 1000;

  struct Entry {
    std::atomic<CUstream> stream{nullptr};
    std::atomic<uint64_t> turn{0};  // of the last work; 0: none
  };
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::array<Entry, kStreams> streams;
  };
  // What a thread keeps of its own. Trivial.
  struct Mine {
    Slot* slot;
    Entry* last;  // where its last work went
  };

  // The calling thread's last work went to the stream, and since then no hold has been in question: Submitted would
  // change nothing.
  bool IsKnown(const Mine& mine, CUstream stream) const {
    return mine.last != nullptr && mine.last->stream.load(std::memory_order_relaxed) == stream &&
           mine.last->turn.load(std::memory_order_relaxed) == turn_.load(std::memory_order_relaxed);
  }
  // The calling thread submits work to the stream, an explicit handle. True: it has a slot from now on, and Leave must
  // be called when it ends.
  bool Submitted(Mine& mine, CUstream stream) {
    const uint64_t turn = turn_.load(std::memory_order_relaxed);
    if (mine.last != nullptr && mine.last->stream.load(std::memory_order_relaxed) == stream) {
      if (mine.last->turn.load(std::memory_order_relaxed) != turn) {
        mine.last->turn.store(turn, std::memory_order_relaxed);
      }
      return false;
    }
    return SubmittedElsewhere(mine, stream, turn);
  }
  void Leave(Mine& mine);
  // Where the thread's last work went; the legacy default stream if it had none.
  static CUstream LastOf(const Mine& mine) {
    return mine.last != nullptr ? mine.last->stream.load(std::memory_order_relaxed) : CU_STREAM_LEGACY;
  }

  // A hold is in question once more.
  void NextTurn() { turn_.fetch_add(1, std::memory_order_relaxed); }
  // Whether another thread has work of its own, seen from the stream.
  bool OthersHaveTheirOwn(const Mine& mine, CUstream stream) const;
  // Whether another thread has lately submitted work to the stream.
  bool OthersUse(const Mine& mine, CUstream stream) const;

 private:
  // What a slot has lately submitted: to the stream, and to others.
  struct Lately {
    bool to_it;
    bool elsewhere;
  };
  static Lately LatelyOf(const Slot& slot, CUstream stream, uint64_t turn);
  template <typename Matches>
  bool AnyOther(const Mine& mine, CUstream stream, uint64_t turn, const Matches& matches) const;
  bool SubmittedElsewhere(Mine& mine, CUstream stream, uint64_t turn);

  std::atomic<uint64_t> turn_{1};
  std::atomic<size_t> used_{0};  // slots that ever were taken: the first ones
  std::atomic<bool> too_many_{false};
  std::array<Slot, kThreads> slots_;
};

}  // namespace slipstream::cuda
