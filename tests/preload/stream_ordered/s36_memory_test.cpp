// S36: memory that the program has freed is there for whoever needs it. S39: but not before the work on it has run.
// S40: what the pool says of itself. S31, S34, S35: addresses, wrong calls, devices.
#include <vector>

#include "tests/preload/stream_ordered/heap_test.h"

namespace rules {
namespace {

class Memory : public Heap {
 protected:
  static bool DriverHasSoon(size_t bytes) {
    const auto deadline = std::chrono::steady_clock::now() + Patience();
    while (simFreeMemory(0) < bytes) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

TEST_F(Memory, S36_FragmentsServeALargerBlock) {
  std::vector<uint8_t*> blocks;
  for (int i = 0; i < 18; ++i) blocks.push_back(Malloc(50 * kMiB, a_));
  for (size_t i = 0; i < blocks.size(); i += 2) OK(cudaFreeAsync(blocks[i], a_));
  uint8_t* const large = Malloc(300 * kMiB, a_);
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  ASSERT_NE(large, nullptr);
  OK(LaunchFill(large, 300 * kMiB, 0x17, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(large, 0x17, 300 * kMiB));
}

TEST_F(Memory, S36_TooMuchIsTheDriversError) {
  void* memory = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaMallocAsync(&memory, size_t{2} << 30, a_));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
  uint8_t* const block = Malloc(kBlock, b_);
  OwnOnB(block, kBlock, 1);
}

TEST_F(Memory, S36others_IdleMemoryIsThereForOtherAllocations) {
  OK(cudaFreeAsync(Malloc(700 * kMiB, a_), a_));
  OK(cudaDeviceSynchronize());
  uint64_t threshold = 0;
  OK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  void* memory = nullptr;
  RETURNS(cudaSuccess, cudaMalloc(&memory, 800 * kMiB));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  OK(cudaFree(memory));
}

TEST_F(Memory, S32_WhatTheDriverWouldHaveGivenBackIsFree) {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  constexpr size_t kBytes = 300 * kMiB;
  OK(cudaMemGetInfo(&before, &total));
  OK(cudaFreeAsync(Malloc(kBytes, a_), a_));
  OK(cudaDeviceSynchronize());
  OK(cudaMemGetInfo(&after, &total));
  if (Engine()) {
    EXPECT_LE(after, before - kBytes) << "the pool is to keep everything";
  }
  uint64_t threshold = 0;
  OK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  OK(cudaDeviceSynchronize());
  OK(cudaMemGetInfo(&after, &total));
  EXPECT_GE(after, before - 2 * kMiB);
  EXPECT_LE(after, total);
  OK(cudaMemGetInfo(nullptr, &total));
}

// Nobody outside can reach it, so nothing needs to be waited for on its account.
TEST_F(Memory, S22_ACopyIntoTheHeapIsNotWaitedFor) {
  constexpr size_t kCopied = 1000;
  const std::vector<uint8_t> source(kCopied, 0x11);
  // Work from before the engine looked may have effects on the host.
  OK(cudaMemcpyAsync(scratch_, source.data(), kCopied, cudaMemcpyHostToDevice, a_));
  OK(cudaDeviceSynchronize());
  for (const size_t bytes : {kCopied, kBlock}) {
    uint8_t* const block = Malloc(bytes, a_);
    const Tally tally("transfer");
    Backlog(a_);
    OK(cudaMemcpyAsync(block, source.data(), kCopied, cudaMemcpyHostToDevice, a_));
    OK(cudaStreamSynchronize(a_));
    DECIDED(tally, "h2d.promoted.small", 1);
    DECIDED(tally, "sync.skipped", 1);
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(block, 0x11, kCopied)) << bytes;
    OK(cudaFreeAsync(block, a_));
  }
}

class Decay : public Memory {
 public:
  Decay() { setenv("SLIPSTREAM_ALLOCATOR_DECAY", "1", 1); }
};

TEST_F(Decay, S36decay_WhatIsBeyondTheThresholdGoesBack) {
  uint64_t threshold = 64 * kMiB;
  OK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  const size_t before = simFreeMemory(0);
  OK(cudaFreeAsync(Malloc(500 * kMiB, a_), a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(DriverHasSoon(before - 100 * kMiB));
}

TEST_F(Memory, S39_WhatIsTrimmedHasNoWorkOnIt) {
  (void)FreedWhilePending(40 * kMiB, 0x11);
  OK(cudaMemPoolTrimTo(pool_, 0));
  OK(cudaStreamSynchronize(a_));
  OK(cudaDeviceSynchronize());
  OK(cudaMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(Of(cudaMemPoolAttrReservedMemCurrent), 0U);
}

TEST_F(Memory, S40_ThePoolSaysWhatIsUsedAndReserved) {
  constexpr size_t kBytes = 30 * kMiB;
  uint8_t* const block = Malloc(kBytes, a_);
  uint8_t* const small = Malloc(100, a_);
  EXPECT_EQ(Of(cudaMemPoolAttrUsedMemCurrent), kBytes + 512);
  EXPECT_GE(Of(cudaMemPoolAttrReservedMemCurrent), kBytes + 512);
  EXPECT_LE(Of(cudaMemPoolAttrReservedMemCurrent), kBytes + 64 * kMiB);
  OK(cudaFreeAsync(block, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Of(cudaMemPoolAttrUsedMemCurrent), 512U);
  EXPECT_EQ(Of(cudaMemPoolAttrUsedMemHigh), kBytes + 512);
  uint64_t zero = 0;
  OK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &zero));
  EXPECT_EQ(Of(cudaMemPoolAttrUsedMemHigh), 512U);
  OK(cudaDeviceSynchronize());
  OK(cudaMemPoolTrimTo(pool_, 0));
  EXPECT_LT(Of(cudaMemPoolAttrReservedMemCurrent), kBytes);
  OK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &zero));
  EXPECT_LT(Of(cudaMemPoolAttrReservedMemHigh), kBytes);
  OK(cudaFreeAsync(small, a_));
}

TEST_F(Memory, S31_BlocksAreAligned) {
  for (const size_t bytes : {size_t{1}, size_t{513}, size_t{33'000}, 3 * kMiB + 1}) {
    uint8_t* const block = Malloc(bytes, a_);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0U);
    cudaPointerAttributes attributes = {};
    OK(cudaPointerGetAttributes(&attributes, block + bytes - 1));
    EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
    EXPECT_EQ(attributes.device, 0);
    OK(cudaFreeAsync(block, a_));
  }
}

TEST_F(Memory, S34_WrongFreesAreRefused) {
  for (const size_t bytes : {size_t{1000}, kBlock}) {
    uint8_t* const block = Malloc(bytes, a_);
    EXPECT_NE(cudaFreeAsync(block + 256, a_), cudaSuccess);
    EXPECT_NE(cudaGetLastError(), cudaSuccess);
    OK(cudaFreeAsync(block, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_NE(cudaFreeAsync(block, a_), cudaSuccess);
    EXPECT_NE(cudaGetLastError(), cudaSuccess);
  }
  // A free that is in no stream's order is allowed.
  uint8_t* const block = Malloc(kBlock, a_);
  OK(LaunchFill(block, kBlock, 1, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cudaFree(block));
  OwnOnB(Malloc(kBlock, b_), kBlock, 2);
}

// Work of another device on memory of the one, before and after its pool was opened to that.
class Peers : public Heap {
 protected:
  void SetUp() override {
    Heap::SetUp();
    OK(cudaSetDevice(1));
    OK(cudaStreamCreateWithFlags(&there_, cudaStreamNonBlocking));
    OK(cudaDeviceGetDefaultMemPool(&pool_there_, 1));
    OK(cudaSetDevice(0));
  }
  static void Open(cudaMemPool_t pool, int device) {
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = device;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    OK(cudaMemPoolSetAccess(pool, &access, 1));
  }
  static void ExpectReached(uint8_t* block, size_t bytes, cudaStream_t stream) {
    OK(LaunchFill(block, bytes, 9, stream));
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_TRUE(HoldsOnly(block, 9, bytes));
  }
  cudaStream_t there_ = nullptr;
  cudaMemPool_t pool_there_ = nullptr;
};

TEST_F(Peers, S33_WhatWasAndWhatWillBeAllocatedIsReached) {
  uint8_t* const before = Malloc(kBlock, a_);
  uint8_t* const small = Malloc(100, a_);
  Open(pool_, 1);
  uint8_t* const after = Malloc(5 * kBlock, a_);
  OK(cudaStreamSynchronize(a_));
  OK(cudaSetDevice(1));
  ExpectReached(before, kBlock, there_);
  ExpectReached(small, 100, there_);
  ExpectReached(after, 5 * kBlock, there_);
}

TEST_F(Peers, S33_APoolThatWasOpenedBeforeAnythingCameFromIt) {
  Open(pool_there_, 0);
  uint8_t* const block = Malloc(kBlock, there_);
  OK(cudaStreamSynchronize(there_));
  ExpectReached(block, kBlock, a_);
}

// Memory that is moved to another place is as open there.
TEST_F(Peers, S33_MemoryThatIsMovedIsReached) {
  Open(pool_, 1);
  std::vector<uint8_t*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(Malloc(6 * kMiB, a_));
  for (size_t i = 0; i < blocks.size(); i += 2) {
    OK(cudaFreeAsync(blocks[i], a_));
  }
  OK(cudaDeviceSynchronize());
  uint8_t* const large = Malloc(24 * kMiB, a_);
  OK(cudaStreamSynchronize(a_));
  OK(cudaSetDevice(1));
  ExpectReached(large, 24 * kMiB, there_);
  ExpectReached(blocks[1], 6 * kMiB, there_);
}

TEST_F(Memory, S35_MemoryIsTheStreamsDevices) {
  cudaStream_t there = nullptr;
  OK(cudaSetDevice(1));
  OK(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
  OK(cudaSetDevice(0));
  uint8_t* const block = Malloc(kBlock, there);
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, block));
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(Of(cudaMemPoolAttrUsedMemCurrent), 0U);
  OK(cudaFreeAsync(block, there));
}

}  // namespace
}  // namespace rules
