// What the tests of the memory pool's rules share (rules/two_streams.h).
//
// Threading: one fixture, one main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/preload/rules/two_streams.h"

namespace rules {

#define PARKED(tally, times) DECIDED(tally, "parked", times)

class Pool : public TwoStreams {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoStreams::SetUp());
    // The first free of a process waits for all that came before, of which the library knows nothing.
    OK(cudaFree(Malloc(512)));
    OK(simQuiesce());
  }

  static uint8_t* Malloc(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    return static_cast<uint8_t*>(memory);
  }

  // The device catches up, so that a block that is freed now is free of work when it is wanted.
  static void FreeWhenIdle(void* memory) {
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_EQ(simQuiesce(), 0);
  }

  // What the driver itself has left on the current device: what a process without the library would get.
  static size_t DriverFree() {
    int device = 0;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    return simFreeMemory(device);
  }
  static size_t Free() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }

  // Which driver allocation an address belongs to: no two have the same number in a process.
  static unsigned long long IdOf(const void* memory) {
    unsigned long long id = 0;
    EXPECT_EQ(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<CUdeviceptr>(memory)),
              CUDA_SUCCESS);
    return id;
  }

  // Takes all memory but about `bytes`.
  void LeaveFree(size_t bytes) {
    const size_t free = Free();
    ASSERT_GT(free, bytes);
    ballast_ = Malloc(free - bytes);
  }

  // 200 MiB are idle, and the driver has 50.
  void IdleAndLittleElse() {
    uint8_t* const block = Malloc(200 * kMiB);
    LeaveFree(50 * kMiB);
    OK(cudaFree(block));
  }

  // Whether the driver comes to have so many bytes free.
  static bool DriverHasSoon(size_t bytes) {
    const auto deadline = std::chrono::steady_clock::now() + Patience();
    while (DriverFree() < bytes) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  uint8_t* ballast_ = nullptr;
};

}  // namespace rules
