// What a free answers and promises, and where the pool steps aside (S30b, S34, S36, S37).
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/preload/allocator_pinned/pinned_test.h"

namespace pinned {
namespace {

TEST_P(PinnedOfSize, S34_WrongFreesAnswerAsTheDriverDoes) {
  const size_t bytes = GetParam();
  std::vector<uint8_t> pageable(64);
  uint8_t* const memory = Allocate(bytes, 0x11);
  OK(cudaFreeHost(nullptr));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(memory + 64));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(pageable.data()));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(device_));
  RETURNS(cudaErrorInvalidValue, cudaFree(memory));
  (void)cudaGetLastError();
  EXPECT_TRUE(HoldsOnly(memory, 0x11, bytes));
  OK(cudaFreeHost(memory));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(memory));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  OK(cudaGetLastError());
}

// A program looks at host memory behind a free, which waits for the device.
TEST_P(PinnedOfSize, S30b_WhatTheHostCanSeeIsThereBehindAFree) {
  const size_t bytes = GetParam();
  uint8_t* const freed = Allocate(bytes, 0x11);
  uint8_t* const kept = Allocate(bytes, 0x22);
  Backlog(a_);
  OK(cudaMemcpyAsync(kept, device_, bytes, cudaMemcpyDeviceToHost, a_));
  const Tally tally("allocator");
  OK(cudaFreeHost(freed));
  EXPECT_TRUE(HoldsOnly(kept, kOnDevice, bytes));
  DECIDED(tally, "pinned.parked", 1);
}

TEST_P(PinnedOfSize, S37_DuringACaptureThePoolIsNotThere) {
  const size_t bytes = GetParam();
  uint8_t* const before = Allocate(bytes, 0x11);
  uint8_t* const idle = Allocate(bytes, 0x22);
  OK(cudaFreeHost(idle));
  Settle();
  const Tally tally("allocator");
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(LaunchFill(device_, 4096, 0x55, a_));
  uint8_t* const during = Allocate(bytes, 0x33);
  OK(cudaFreeHost(before));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  EXPECT_EQ(TypeOf(before), cudaMemoryTypeUnregistered);
  OK(cudaFreeHost(during));
  DECIDED(tally, "passed.capture", 1);
  DECIDED(tally, "freed.capture", 1);
  DECIDED(tally, "pinned.parked", 1);
  OK(cudaGetLastError());
}

// In global mode a free is refused, and the memory is the program's still.
TEST_P(PinnedOfSize, S37_ARefusedFreeLeavesTheMemory) {
  const size_t bytes = GetParam();
  uint8_t* const memory = Allocate(bytes, 0x11);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  OK(LaunchFill(device_, 4096, 0x55, a_));
  RETURNS(cudaErrorStreamCaptureUnsupported, cudaFreeHost(memory));
  cudaGraph_t graph = nullptr;
  RETURNS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(a_, &graph));
  (void)cudaGetLastError();
  EXPECT_TRUE(HoldsOnly(memory, 0x11, bytes));
  OK(cudaFreeHost(memory));
  OK(cudaGetLastError());
}

TEST_P(PinnedOfSize, Others_ResetTakesTheMemoryAlong) {
  const size_t bytes = GetParam();
  uint8_t* const live = Allocate(bytes, 0x11);
  uint8_t* const idle = Allocate(bytes, 0x22);
  OK(cudaFreeHost(idle));
  OK(cudaDeviceReset());
  EXPECT_NE(msync(live, 4096, MS_ASYNC), 0) << "still mapped";
  EXPECT_NE(msync(idle, 4096, MS_ASYNC), 0) << "still mapped";
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(live));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(idle));
  (void)cudaGetLastError();
  uint8_t* const next = Allocate(bytes, 0x33);
  EXPECT_EQ(TypeOf(next), cudaMemoryTypeHost);
  OK(cudaFreeHost(next));
  OK(cudaGetLastError());
}

// Another device's memory stays, live or idle.
TEST_P(PinnedOfSize, Others_ResetOfAnotherDevice) {
  const size_t bytes = GetParam();
  uint8_t* const live = Allocate(bytes, 0x11);
  uint8_t* const idle = Allocate(bytes, 0x22);
  OK(cudaSetDevice(1));
  OK(cudaFree(nullptr));
  OK(cudaFreeHost(idle));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(0));
  uint8_t* const next = Allocate(bytes, 0x33);
  EXPECT_TRUE(HoldsOnly(live, 0x11, bytes));
  EXPECT_TRUE(HoldsOnly(next, 0x33, bytes));
  EXPECT_EQ(TypeOf(live), cudaMemoryTypeHost);
  OK(cudaFreeHost(live));
  OK(cudaFreeHost(next));
}

TEST_P(PinnedOfSize, Others_MemoryOfOneDeviceIsNotAnothers) {
  uint8_t* const first = Allocate(GetParam(), 0x11);
  OK(cudaFreeHost(first));
  Settle();
  OK(cudaSetDevice(1));
  OK(cudaFree(nullptr));
  uint8_t* const second = Allocate(GetParam(), 0x22);
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, second));
  EXPECT_EQ(attributes.device, 1);
}

class PinnedWithCap : public PinnedOfSize {
 protected:
  PinnedWithCap() {
    setenv("SLIPSTREAM_ALLOCATOR_MAX_IDLE_PINNED", std::to_string(GetParam() + GetParam() / 2).c_str(), 1);
  }
};
INSTANTIATE_TEST_SUITE_P(Frees, PinnedWithCap, ::testing::Values(kAllocated, kMade), SizeName);

TEST_P(PinnedWithCap, S36cap_NoMoreThanThePolicySaysIsIdle) {
  uint8_t* const one = Allocate(GetParam(), 0x11);
  uint8_t* const two = Allocate(GetParam(), 0x22);
  const Tally tally("allocator");
  OK(cudaFreeHost(one));
  OK(cudaFreeHost(two));
  EXPECT_EQ(TypeOf(two), cudaMemoryTypeUnregistered);
  DECIDED(tally, "pinned.parked", 1);
  DECIDED(tally, "pinned.freed.cap", 1);
}

class PinnedWithDecay : public PinnedOfSize {
 protected:
  PinnedWithDecay() { setenv("SLIPSTREAM_ALLOCATOR_DECAY", "1", 1); }
};
INSTANTIATE_TEST_SUITE_P(Frees, PinnedWithDecay, ::testing::Values(kAllocated, kMade), SizeName);

TEST_P(PinnedWithDecay, S36decay_WhatNobodyWantsGoesBack) {
  const Tally tally("allocator");
  uint8_t* const memory = Allocate(GetParam(), 0x11);
  OK(cudaFreeHost(memory));
  Settle();
  // A second, and however long the machine takes to get round to it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (TypeOf(memory) != cudaMemoryTypeUnregistered && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(TypeOf(memory), cudaMemoryTypeUnregistered);
  DECIDED(tally, "pinned.parked", 1);
  Allocate(GetParam(), 0x22);
  DECIDED(tally, "pinned.reused", 0);
}

// S36: the driver has nothing left, and gets back what is idle.
TEST_P(PinnedOfSize, Others_IdleMemoryGoesBackBeforeAnAllocationFails) {
  uint8_t* const memory = Allocate(GetParam(), 0x11);
  OK(cudaFreeHost(memory));
  const Tally tally("allocator");
  if (rules::Engine()) {
    OK(simFailCall("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, 0));
  }
  uint8_t* const other = Allocate(2 * kAllocated, 0x22);
  EXPECT_EQ(TypeOf(other), cudaMemoryTypeHost);
  DECIDED(tally, "retried", 1);
  DECIDED(tally, "reclaimed", 2);  // and SetUp's
  OK(cudaGetLastError());
}

TEST_F(Pinned, Others_AnAllocationThatFailsAnswersAsTheDriverDoes) {
  OK(simFailCall("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1, 1));
  void* memory = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaMallocHost(&memory, kAllocated));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  OK(cudaGetLastError());
}

TEST_F(Pinned, Others_OddArgumentsAreTheDriversToAnswer) {
  void* memory = this;
  OK(cudaHostAlloc(&memory, 0, 0));
  EXPECT_EQ(memory, nullptr);
  RETURNS(cudaErrorInvalidValue, cudaHostAlloc(nullptr, kAllocated, 0));
  RETURNS(cudaErrorInvalidValue, cudaHostAlloc(&memory, kAllocated, 1U << 5));
}

}  // namespace
}  // namespace pinned
