// The driver, and the contexts in which the device could use memory: what every pool asks before it keeps a block.
//
// Only primary contexts are served. A program with others may use memory in a context that nobody here can list, so
// from then on nothing can be fenced.
// Threading: any thread. No lock is held while calling anything that may wait for the device (S55).
// Ownership: never destroyed with its pool; contexts are the program's, and are not kept alive from here.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "cuda/driver.h"

namespace slipstream::cuda {

// The calling thread's, where a device may be named.
inline constexpr CUdevice kCurrentDevice = -1;

class Contexts {
 public:
  static constexpr size_t kMostDevices = 64;

  struct Set {
    struct Entry {
      CUcontext context;
      CUdevice device;
    };
    std::array<Entry, kMostDevices> entries;
    size_t count = 0;

    void Add(CUcontext context, CUdevice device) { entries[count++] = {.context = context, .device = device}; }
  };

  Contexts() = default;
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  // Whether the driver is there. Find looks for it, and waits for nobody: a thread that meets another one in it is told
  // no.
  bool there() const { return there_.load(std::memory_order_acquire); }
  bool Find();
  // Whether Find failed because the driver has no events of a whole context (CUDA 12.5).
  bool driver_is_old() const { return driver_is_old_.load(std::memory_order_relaxed); }
  // Filled once there() is true.
  const Driver& driver() const { return driver_; }
  int device_count() const { return device_count_; }

  // The device's primary context; null: it is not active, or cannot be told.
  CUcontext Primary(CUdevice device);
  // The calling thread's context and its device. Null: it has none, or one of the program's own making.
  CUcontext Current(CUdevice* device);
  // As if the program had been seen with such a context: nothing is served any more.
  void ServeNoMore() { others_.store(true, std::memory_order_release); }
  // Whether the program was seen with contexts that are no device's primary one.
  bool others() const { return others_.load(std::memory_order_acquire); }
  // The device is being reset: its primary context will be another one. Until the end its work may still run.
  void BeginReset(CUdevice device) {
    primary_[device].store(nullptr, std::memory_order_release);
    lives_[device].fetch_add(1, std::memory_order_acq_rel);
  }
  void EndReset(CUdevice device) {
    primary_[device].store(nullptr, std::memory_order_release);
    lives_[device].fetch_add(1, std::memory_order_acq_rel);
  }
  // Another even number after each reset of the device; an odd one while it is being reset.
  uint32_t Life(CUdevice device) const { return lives_[device].load(std::memory_order_acquire); }

  // Every primary context that is active. `known`, that of the device, is active for sure, and comes first. False: one
  // cannot be told.
  bool Active(CUdevice device, CUcontext known, Set* contexts);

 private:
  void Unexplained(CUdevice device, CUcontext context);

  std::atomic<bool> there_{false};
  std::atomic<bool> others_{false};
  std::atomic<bool> driver_is_old_{false};
  std::mutex find_mutex_;
  Driver driver_;
  int device_count_ = 0;  // written before there_
  std::array<std::atomic<CUcontext>, kMostDevices> primary_{};
  std::array<std::atomic<CUcontext>, kMostDevices> unexplained_{};  // one that was current beside no primary one
  std::array<std::atomic<uint32_t>, kMostDevices> lives_{};
};

}  // namespace slipstream::cuda
