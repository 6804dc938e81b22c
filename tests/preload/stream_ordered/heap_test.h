// What the tests of the stream-ordered heaps' rules share (rules/rules.h says how they are run).
//
// Threading: one fixture, one main thread.
// Hazard: in the simulator's adversarial mode nothing runs before somebody waits for it. A heap's questions to the
//   driver let a little run: Backlog() puts more in front than that.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tests/preload/rules/rules.h"

namespace rules {

using simtest::LaunchFill;

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kBlock = 4 * kMiB;

class Heap : public ::testing::Test {
 protected:
  void SetUp() override {
    simtest::RegisterKernels();
    if (std::getenv("SIMCUDA_SEED") == nullptr) {
      OK(simSetSeed(0));
    }
    OK(cudaSetDevice(0));
    OK(cudaMalloc(reinterpret_cast<void**>(&scratch_), kMiB));
    OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
    OK(cudaDeviceGetDefaultMemPool(&pool_, 0));
    // As PyTorch does before it takes anything.
    uint64_t threshold = UINT64_MAX;
    OK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }

  static uint8_t* Malloc(size_t bytes, cudaStream_t stream) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMallocAsync(&memory, bytes, stream), cudaSuccess) << bytes;
    return static_cast<uint8_t*>(memory);
  }

  // Work that lies in front of what follows on the stream.
  void Backlog(cudaStream_t stream, int kernels = 64) {
    for (int i = 0; i < kernels; ++i) {
      OK(LaunchFill(scratch_, 64, i, stream));
    }
  }

  // A block that is freed on a_ while work on it is pending; it had `value`, in its first `filled` bytes.
  uint8_t* FreedWhilePending(size_t bytes, int value, size_t filled = SIZE_MAX) {
    uint8_t* const block = Malloc(bytes, a_);
    Backlog(a_);
    EXPECT_EQ(LaunchFill(block, std::min(bytes, filled), value, a_), cudaSuccess);
    EXPECT_EQ(cudaFreeAsync(block, a_), cudaSuccess);
    return block;
  }

  // Work of the block's new owner on b_; whatever else is pending runs afterwards, and changes none of it.
  void OwnOnB(uint8_t* block, size_t bytes, uint8_t value) {
    OK(LaunchFill(block, bytes, value, b_));
    OK(cudaStreamSynchronize(b_));
    EXPECT_TRUE(HoldsOnly(block, value, bytes));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(block, value, bytes));
  }

  uint64_t Of(cudaMemPoolAttr attribute) const {
    uint64_t value = 0;
    EXPECT_EQ(cudaMemPoolGetAttribute(pool_, attribute, &value), cudaSuccess);
    return value;
  }

  uint8_t* scratch_ = nullptr;
  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace rules
