// Which of two ways to make a copy is the faster one on this machine, learnt from the copies that the program makes.
//
// For each power of two of sizes the time per byte of either way is kept as a running mean. The faster one is taken;
// the other one is tried again now and then, as often as costs about a hundredth of the time, because machines change:
// other processes come and go. Either way is right, so a wrong guess costs time and nothing else.
//
// Threading: any thread, no lock; threads that learn at the same moment may lose one of the two samples.
// Source of the rule: where the ways cross depends on how long the machine takes to wake a thread and on who else uses
// it, so no constant would be right.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace slipstream::transfer {

class PathChooser {
 public:
  static constexpr size_t kCount = 2;
  // Each way is tried so often before one of them is preferred.
  static constexpr uint32_t kTrials = 3;
  // At least so many copies lie between two trials of the slower way.
  static constexpr uint32_t kLeastBetween = 32;
  // Time that trying the slower way may cost, as a part of all.
  static constexpr uint32_t kCostIsOneIn = 100;

  // 0 or 1: which way the next copy of `bytes` takes. Where its time will not tell anything nothing is tried out, and
  // while nothing is known it is the first way.
  size_t Choose(size_t bytes, bool will_tell = true) {
    Class& sizes = ClassOf(bytes);
    const uint32_t first = sizes[0].samples.load(std::memory_order_relaxed);
    const uint32_t second = sizes[1].samples.load(std::memory_order_relaxed);
    if (first < kTrials || second < kTrials) return first < kTrials || !will_tell ? 0 : 1;
    const uint64_t times[kCount] = {sizes[0].time.load(std::memory_order_relaxed),
                                    sizes[1].time.load(std::memory_order_relaxed)};
    const size_t faster = times[0] <= times[1] ? 0 : 1;
    if (!will_tell) return faster;
    const uint32_t since = sizes[faster].since_other.fetch_add(1, std::memory_order_relaxed);
    const uint64_t loss = kCostIsOneIn * (times[1 - faster] - times[faster]);
    if (since < kLeastBetween || since * times[faster] < loss) return faster;
    sizes[faster].since_other.store(0, std::memory_order_relaxed);
    return 1 - faster;
  }

  // A copy of `bytes` took `ns` by the way.
  void Took(size_t way, size_t bytes, uint64_t ns) {
    Way& learnt = ClassOf(bytes)[way];
    uint64_t time = ns * kScale / bytes + 1;
    const uint32_t samples = learnt.samples.load(std::memory_order_relaxed);
    if (samples != 0) {
      const uint64_t mean = learnt.time.load(std::memory_order_relaxed);
      // One that was interrupted says little about the next.
      time = samples == 1 ? std::min(mean, time) : (7 * mean + std::min(time, 2 * mean)) / 8;
    }
    learnt.time.store(time, std::memory_order_relaxed);
    if (samples < kTrials) learnt.samples.store(samples + 1, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kScale = 4096;  // of a nanosecond a byte

  struct Way {
    std::atomic<uint64_t> time{0};
    std::atomic<uint32_t> samples{0};
    std::atomic<uint32_t> since_other{0};
  };
  using Class = std::array<Way, kCount>;

  Class& ClassOf(size_t bytes) { return classes_[static_cast<size_t>(std::bit_width(bytes)) % classes_.size()]; }

  std::array<Class, 64> classes_;
};

}  // namespace slipstream::transfer
