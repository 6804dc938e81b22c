// How long the driver takes for one sort of call in this process.
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace slipstream::allocator {

class DriverTimes {
 public:
  // Fewer say nothing: the first ones of a process can take many times as long.
  static constexpr uint32_t kEnough = 3;

  void Took(uint64_t time_ns) {
    uint64_t fastest = fastest_ns_.load(std::memory_order_relaxed);
    while (time_ns < fastest && !fastest_ns_.compare_exchange_weak(fastest, time_ns, std::memory_order_relaxed)) {
    }
    seen_.fetch_add(1, std::memory_order_release);
  }
  // Of the fastest one so far. 0: not known yet.
  uint64_t FastestNs() const {
    return seen_.load(std::memory_order_acquire) < kEnough ? 0 : fastest_ns_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> fastest_ns_{UINT64_MAX};
  std::atomic<uint32_t> seen_{0};
};

}  // namespace slipstream::allocator
