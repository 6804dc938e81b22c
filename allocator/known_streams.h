// What the driver says of a stream, kept from the stream's creation to its end: two questions of 40 ns each are saved
// in every call that names one.
//
// Only streams are known here whose creation was seen; for all others the driver is asked. Ids never come again while
// the process lives (CUDA driver API, cuStreamGetId), handles do.
// Hazard: a stream that a hooked function creates and another one destroys stays known until its handle comes again
//   from a hooked one.
// Threading: Find from any thread, without a lock; Add, Remove and Clear under a lock of their own. A stream is alive
//   while it is looked up.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace slipstream::allocator {

class KnownStreams {
 public:
  struct Facts {
    CUcontext context = nullptr;
    uint64_t id = 0;
  };

  KnownStreams() = default;
  KnownStreams(const KnownStreams&) = delete;
  KnownStreams& operator=(const KnownStreams&) = delete;

  bool Find(CUstream stream, Facts* facts) const {
    for (size_t i = 0; i < kProbes; ++i) {
      const Place& place = PlaceOf(stream, i);
      if (place.stream.load(std::memory_order_acquire) != stream) continue;
      *facts = {.context = place.context.load(std::memory_order_relaxed),
                .id = place.id.load(std::memory_order_relaxed)};
      return true;
    }
    return false;
  }

  // Where there is no room the stream stays unknown.
  void Add(CUstream stream, const Facts& facts) {
    const std::lock_guard lock(mutex_);
    Forget(stream);
    for (size_t i = 0; i < kProbes; ++i) {
      Place& place = PlaceOf(stream, i);
      if (place.stream.load(std::memory_order_relaxed) != nullptr) continue;
      place.context.store(facts.context, std::memory_order_relaxed);
      place.id.store(facts.id, std::memory_order_relaxed);
      place.stream.store(stream, std::memory_order_release);
      return;
    }
  }

  // Before the stream is destroyed.
  void Remove(CUstream stream) {
    const std::lock_guard lock(mutex_);
    Forget(stream);
  }

  // All streams of a device are gone.
  void Clear() {
    const std::lock_guard lock(mutex_);
    for (Place& place : places_) place.stream.store(nullptr, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kPlaces = 1024;
  static constexpr size_t kProbes = 8;

  struct Place {
    std::atomic<CUstream> stream{nullptr};
    std::atomic<CUcontext> context{nullptr};
    std::atomic<uint64_t> id{0};
  };

  static size_t IndexOf(CUstream stream, size_t probe) {
    constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;  // Knuth's multiplicative hash
    constexpr int kShift = 64 - 10;
    static_assert(kPlaces == size_t{1} << 10);
    return ((reinterpret_cast<uintptr_t>(stream) * kGolden >> kShift) + probe) % kPlaces;
  }
  const Place& PlaceOf(CUstream stream, size_t probe) const { return places_[IndexOf(stream, probe)]; }
  Place& PlaceOf(CUstream stream, size_t probe) { return places_[IndexOf(stream, probe)]; }

  void Forget(CUstream stream) {
    for (size_t i = 0; i < kProbes; ++i) {
      Place& place = PlaceOf(stream, i);
      if (place.stream.load(std::memory_order_relaxed) == stream) {
        place.stream.store(nullptr, std::memory_order_relaxed);
      }
    }
  }

  std::mutex mutex_;
  std::array<Place, kPlaces> places_;
};

}  // namespace slipstream::allocator
