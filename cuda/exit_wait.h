// The wait for the device that the end of a process makes up for (S79), in the hands of a thread that was started
// before.
//
// The thread that calls exit() may have been stopped by a signal inside the driver, or with a lock of the C library's:
// whatever it asked for then could wait for itself. So it asks nobody, and waits only as long as the other thread is
// being answered.
//
// Threading: Start from one thread, once. Wait from one thread, once. Never destroyed.
// Errors: without a thread nothing is waited for.
#pragma once

#include <semaphore.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>

#include "cuda/driver.h"
#include "cuda/fence.h"

namespace slipstream::cuda {

class ExitWait {
 public:
  static constexpr size_t kMostFences = 9;
  // For the device, over all fences, and for an answer of the driver's.
  static constexpr std::chrono::seconds kLongest{30};
  static constexpr std::chrono::seconds kLongestAnswer{5};

  explicit ExitWait(const Driver& driver) : driver_(driver) {}
  ExitWait(const ExitWait&) = delete;
  ExitWait& operator=(const ExitWait&) = delete;

  // Starts the thread, which sleeps until Wait, and makes `context` its own then. False: there is none.
  bool Start(CUcontext context);

  // One that Wait waits for. The last that is added is synchronized with even if it has passed (FenceRef::Synchronize).
  void Add(const FenceRef& fence) {
    if (count_ < kMostFences) fences_[count_++] = fence;
  }
  // What the driver says of that work; CUDA_SUCCESS too where it did not say it in time. Async-signal-safe.
  CUresult Wait();

 private:
  static void* Run(void* self);
  CUresult WaitHere();
  CUresult Answered(CUresult answer);

  const Driver& driver_;
  CUcontext context_ = nullptr;
  bool started_ = false;
  sem_t ends_ = {};
  sem_t answered_ = {};
  std::array<FenceRef, kMostFences> fences_;
  size_t count_ = 0;
  std::atomic<bool> done_{false};
  std::atomic<CUresult> result_{CUDA_SUCCESS};
};

}  // namespace slipstream::cuda
