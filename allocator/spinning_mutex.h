// A mutex for sections of some hundred nanoseconds, taken by threads on processors of their own: it spins for a few
// microseconds before it sleeps, where std::mutex would put each thread to sleep that finds it taken.
//
// Threading: as std::mutex.
// Hazard: never held while calling the driver (S55).
#pragma once

#include <mutex>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slipstream::allocator {

class SpinningMutex {
 public:
  SpinningMutex() = default;
  SpinningMutex(const SpinningMutex&) = delete;
  SpinningMutex& operator=(const SpinningMutex&) = delete;

  void lock() {
    for (int pauses = 1; pauses <= kMostPauses; pauses *= 2) {
      if (mutex_.try_lock()) return;
      for (int i = 0; i < pauses; ++i) Pause();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // Seven attempts, 127 pauses of some 40 ns in all.
  static constexpr int kMostPauses = 64;

  static void Pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }

  std::mutex mutex_;
};

}  // namespace slipstream::allocator
