// Whether what hooked calls do to host memory is recorded (HostEffects). It costs a program that copies from pinned
// memory seven calls of the driver a copy, and is of use only while copies are promoted or freed memory is kept:
// after kIdleAfter records that nobody has asked for it ends, and the first who asks begins it again.
//
// Nothing is missed by that. Whoever begins it again lets hooks record first, and then puts one fence behind all that
// the process has submitted by then, which stands for everything that was not recorded; until that fence is entered
// nobody has a ticket. And whoever asks holds a ticket from before to after: it is void if recording ended in between.
//
// Threading: any thread, no lock. Sequentially consistent: a hook submits, then looks whether it is to record; who
// begins again sets that first, then records the fence. One of the two sees the other.
#pragma once

#include <atomic>
#include <cstdint>

namespace slipstream::cuda {

class EffectWatch {
 public:
  static constexpr uint64_t kIdleAfter = 1024;

  // Of a hook, behind its call.
  bool Records() const { return state_.load(std::memory_order_seq_cst) % kStates != kAsleep; }

  // Of a hook that has recorded something. `idle_after`: kIdleAfter.
  void Recorded(uint64_t idle_after) {
    if (unasked_.fetch_add(1, std::memory_order_relaxed) + 1 < idle_after) return;
    uint64_t state = state_.load(std::memory_order_relaxed);
    if (state % kStates == kAwake) state_.compare_exchange_strong(state, state + 1, std::memory_order_seq_cst);
  }

  // Of whoever is about to ask what is recorded; 0: it is not, and Wake is to be called.
  uint64_t Ticket() {
    const uint64_t state = state_.load(std::memory_order_seq_cst);
    if (state % kStates != kAwake) return 0;
    if (unasked_.load(std::memory_order_relaxed) != 0) unasked_.store(0, std::memory_order_relaxed);
    return state;
  }
  // Behind the question: whether everything was recorded all the while.
  bool IsValid(uint64_t ticket) const { return ticket != 0 && state_.load(std::memory_order_seq_cst) == ticket; }

  // Begins again; `fence` enters a fence behind everything, and returns whether it could. False: it could not, or
  // another thread is at it, so that there is no ticket yet.
  template <typename EnterFence>
  bool Wake(const EnterFence& fence) {
    uint64_t state = state_.load(std::memory_order_relaxed);
    if (state % kStates != kAsleep) return state % kStates == kAwake;
    if (!state_.compare_exchange_strong(state, state + 1, std::memory_order_seq_cst)) return false;
    const bool entered = fence();
    unasked_.store(0, std::memory_order_relaxed);
    state_.store(entered ? state + 2 : state, std::memory_order_seq_cst);
    return entered;
  }

 private:
  // The state counts on, so that a ticket of an earlier time is none: kAwake, kAsleep, kWaking, kAwake, ...
  static constexpr uint64_t kStates = 3;
  static constexpr uint64_t kAwake = 0;
  static constexpr uint64_t kAsleep = 1;

  std::atomic<uint64_t> state_{kStates};
  std::atomic<uint64_t> unasked_{0};
};

}  // namespace slipstream::cuda
