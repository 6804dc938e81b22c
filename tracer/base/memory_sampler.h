// Chooses which of a pool's memory figures get a record.
//
// A change of 1/64 of the most that the device ever held shows in any plot and is always kept. Smaller changes are kept
// once in 10 ms, which is finer than the allocator's usual reports. So a program near the limit, whose memory is taken
// back again and again, does not fill its ring with them: each of its allocations is a record already.
//
// What the driver has to be asked for is wanted at most once in 10 ms for each device, and figures that have it are
// always kept.
//
// Threading: any thread, lock-free. Two threads that report at the same moment may both record, or compare with half of
//   the other's figures. That gives one record too many, or a record 10 ms late.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/base/memory_figures.h"

namespace slipstream::tracer {

class MemorySampler {
 public:
  static constexpr uint64_t kPeriodNs = 10'000'000;
  static constexpr uint64_t kShare = 64;
  // Devices with higher ordinals get a record every time, and are never asked.
  static constexpr size_t kDevices = 64;

  // Whether the driver may be asked now for what else the device has in use. True for one caller in kPeriodNs.
  bool MayAsk(int32_t device, uint64_t now_ns) {
    if (device < 0 || static_cast<size_t>(device) >= kDevices) return false;
    std::atomic<uint64_t>& asked = last_[device].asked_ns;
    uint64_t before = asked.load(std::memory_order_relaxed);
    if (before != 0 && now_ns - before < kPeriodNs) return false;
    return asked.compare_exchange_strong(before, now_ns, std::memory_order_relaxed);
  }

  // Whether the current figures are worth a record. If so, the next ones are compared with them.
  bool Passes(const MemoryFigures& figures, uint64_t now_ns) {
    if (figures.device < 0 || static_cast<size_t>(figures.device) >= kDevices) return true;
    Last& last = last_[figures.device];
    const uint64_t held = figures.live_bytes + figures.idle_bytes;
    if (held > last.peak.load(std::memory_order_relaxed)) last.peak.store(held, std::memory_order_relaxed);
    const uint64_t least = last.peak.load(std::memory_order_relaxed) / kShare;
    const bool first = last.time_ns.load(std::memory_order_relaxed) == 0;
    const bool changed = Differ(figures.live_bytes, last.live, least) || Differ(figures.idle_bytes, last.idle, least);
    const bool asked = figures.device_used.has_value() || figures.largest_idle.has_value();
    if (!first && !changed && !asked && now_ns - last.time_ns.load(std::memory_order_relaxed) < kPeriodNs) return false;
    last.time_ns.store(now_ns, std::memory_order_relaxed);
    last.live.store(figures.live_bytes, std::memory_order_relaxed);
    last.idle.store(figures.idle_bytes, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Last {
    std::atomic<uint64_t> asked_ns{0};
    std::atomic<uint64_t> time_ns{0};
    std::atomic<uint64_t> live{0};
    std::atomic<uint64_t> idle{0};
    std::atomic<uint64_t> peak{0};
  };

  // Whether it changed by at least `least`. No change is never enough.
  static bool Differ(uint64_t now, const std::atomic<uint64_t>& last, uint64_t least) {
    const uint64_t before = last.load(std::memory_order_relaxed);
    const uint64_t difference = now > before ? now - before : before - now;
    return difference != 0 && difference >= least;
  }

  Last last_[kDevices];
};

}  // namespace slipstream::tracer
