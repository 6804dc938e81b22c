// Finds the library that made a driver call which no hook saw: cuBLAS, cuDNN and NCCL bring a CUDA runtime of their
// own. The native stack says it. Walking that takes tens of microseconds, so it is walked once for every key; calls
// with the same key are assumed to come from the same library. A kernel's handle is such a key.
//
// Threading: Of from any thread; without a lock for a key that is known. A new one takes a lock, and the loader's.
// Ownership: constructed once, never destroyed.
// Errors: an unknown caller is a library without a path. A full table takes no more keys: 0.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace slipstream::tracer {

class CallingLibraries {
 public:
  static constexpr size_t kMaxKeys = 1 << 13;
  // Numbers from 1, and the path, before anything has the number. `told_to` is the first argument.
  using Tell = void(void* told_to, uint32_t number, std::string_view path);

  CallingLibraries(Tell* tell, void* told_to) : tell_(tell), told_to_(told_to) {}
  CallingLibraries(const CallingLibraries&) = delete;
  CallingLibraries& operator=(const CallingLibraries&) = delete;

  // Of the calling thread, which is in the driver. `key` is not 0.
  uint32_t Of(uint64_t key);

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};
    std::atomic<uint32_t> library{0};  // before the key
  };
  struct Known {
    const void* base;
    uint32_t number;
  };

  // Where the key stands or would stand; nullptr: nowhere.
  Entry* Find(uint64_t key);
  uint32_t Walk();

  Tell* const tell_;
  void* const told_to_;
  std::array<Entry, 2 * kMaxKeys> entries_;
  std::mutex mutex_;
  size_t count_ = 0;
  std::vector<Known> known_;
};

// Whether the dynamic linker's name of an object is one of those between a caller and the driver's callback: the
// driver, CUPTI, a runtime that is a library of its own, and slipstream.
bool IsBetween(std::string_view path);

}  // namespace slipstream::tracer
