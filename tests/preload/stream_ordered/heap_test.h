// What the tests of the stream-ordered heaps' rules share (rules/two_streams.h).
//
// Threading: one fixture, one main thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tests/preload/rules/two_streams.h"

namespace rules {

class Heap : public TwoStreams {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoStreams::SetUp());
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

  cudaMemPool_t pool_ = nullptr;
};

}  // namespace rules
