// The clock that counters use for the time of a call: the processor's time-stamp counter, if the kernel keeps its own
// time by it. It takes a third of the time of the clock of records (clock.h). Its rate is measured against that clock
// in the first milliseconds, during which that clock is used.
//
// Threading: Start once, before any call; the rest from any thread, lock-free.
// Hazard: if the thread moves, a call's times come from two processors. The kernel guarantees that their counters agree
//   if it says that its clock source is "tsc". Otherwise, and on other processors than x86-64, clock.h is used.
// Errors: none.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace slipstream::tracer {

inline uint64_t TimeStampCounter() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

// Whether the counter has one rate on all processors, as far as processor and kernel say. Reads a file.
bool TimeStampCounterIsAClock();

class CallClock {
 public:
  // How long the rate is measured: then it is right to some millionths.
  static constexpr uint64_t kMeasuredNs = 20'000'000;

  // The beginning of a call.
  struct Moment {
    uint64_t at = 0;
    uint64_t scale = 0;  // ns of a count, times 2^32; 0: `at` is ns
  };

  constexpr CallClock() = default;

  void Start(bool has_counter);

  Moment Now() const {
    const uint64_t scale = scale_.load(std::memory_order_relaxed);
    return {.at = scale != 0 ? TimeStampCounter() : NowNs(), .scale = scale};
  }
  uint64_t NsSince(const Moment& begin) {
    if (begin.scale == 0) [[unlikely]]
      return SlowNsSince(begin);
    const uint64_t now = TimeStampCounter();
    if (now < begin.at) return 0;
    return NsOf(now - begin.at, begin.scale);
  }
  // Converts counts at a Moment's scale; right as long as 64 bits hold the nanoseconds.
  static uint64_t NsOf(uint64_t counts, uint64_t scale) {
    return static_cast<uint64_t>(static_cast<Wide>(counts) * scale >> 32);
  }

 private:
  __extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): `using` takes no __extension__

  struct Pair {
    uint64_t counter = 0;
    uint64_t ns = 0;
  };

  static Pair Read();
  uint64_t SlowNsSince(const Moment& begin);

  std::atomic<uint64_t> scale_{0};
  std::atomic<bool> measuring_{false};
  Pair first_;
};

// The process's.
extern constinit CallClock g_call_clock;

}  // namespace slipstream::tracer
