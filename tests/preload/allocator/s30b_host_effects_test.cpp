// S30b: a free that waited for the device let the host see what the device had written; one that does not must.
#include <cstring>

#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class HostEffects : public Pool {
 protected:
  void SetUp() override {
    Pool::SetUp();
    OK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kMiB));
    std::memset(pinned_, 0, kMiB);
    block_ = Malloc(kBlock);
    source_ = Malloc(kMiB);
    OK(cudaMemset(source_, 0x44, kMiB));
    OK(cudaDeviceSynchronize());
  }

  uint8_t* pinned_ = nullptr;
  uint8_t* block_ = nullptr;
  uint8_t* source_ = nullptr;
};

TEST_F(HostEffects, S30b_ACopyToPinnedMemory) {
  Backlog(a_);
  OK(cudaMemcpyAsync(pinned_, source_, kMiB, cudaMemcpyDeviceToHost, a_));
  const Tally tally("allocator");
  OK(cudaFree(block_));
  EXPECT_EQ(pinned_[0], 0x44);
  EXPECT_EQ(pinned_[kMiB - 1], 0x44);
  PARKED(tally, 1);
}

TEST_F(HostEffects, S30b_ACopyFromPinnedMemory) {
  std::memset(pinned_, 0x55, kMiB);
  Backlog(a_);
  OK(cudaMemcpyAsync(source_, pinned_, kMiB, cudaMemcpyHostToDevice, a_));
  OK(cudaFree(block_));
  std::memset(pinned_, 0x66, kMiB);  // the copy has read it
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(source_, 0x55, kMiB));
}

TEST_F(HostEffects, S30b_AHostFunction) {
  int called = 0;
  Backlog(a_);
  OK(cudaLaunchHostFunc(
      a_, [](void* count) { ++*static_cast<int*>(count); }, &called));
  OK(cudaFree(block_));
  EXPECT_EQ(called, 1);
}

TEST_F(HostEffects, S30b_OnTheLegacyStream) {
  Backlog(nullptr);
  OK(cudaMemcpyAsync(pinned_, source_, kMiB, cudaMemcpyDeviceToHost, nullptr));
  OK(cudaFree(block_));
  EXPECT_EQ(pinned_[0], 0x44);
}

TEST_F(HostEffects, S30b_AnotherThreadsCopy) {
  OnAnotherThread([&] {
    Backlog(a_);
    OK(cudaMemcpyAsync(pinned_, source_, kMiB, cudaMemcpyDeviceToHost, a_));
  });
  OK(cudaFree(block_));
  EXPECT_EQ(pinned_[0], 0x44);
}

TEST_F(HostEffects, S30b_OnAnotherDevice) {
  OK(cudaSetDevice(1));
  uint8_t* const theirs = Malloc(kMiB);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemset(theirs, 0x77, kMiB));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; ++i) {
    OK(cudaMemsetAsync(theirs, 0x77, kMiB, stream));
  }
  OK(cudaMemcpyAsync(pinned_, theirs, kMiB, cudaMemcpyDeviceToHost, stream));
  OK(cudaFree(theirs));
  EXPECT_EQ(pinned_[0], 0x77);
}

// Both devices have a default stream.
TEST_F(HostEffects, S30b_TheDefaultStreamsOfTwoDevices) {
  OK(cudaSetDevice(1));
  uint8_t* const theirs = Malloc(kMiB);
  uint8_t* other = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&other), kMiB));
  OK(cudaMemset(theirs, 0x77, kMiB));
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(0));
  Backlog(nullptr);
  OK(cudaMemcpyAsync(pinned_, source_, kMiB, cudaMemcpyDeviceToHost, nullptr));
  OK(cudaSetDevice(1));
  OK(cudaMemcpyAsync(other, theirs, kMiB, cudaMemcpyDeviceToHost, nullptr));
  OK(cudaSetDevice(0));
  OK(cudaFree(block_));
  EXPECT_EQ(pinned_[0], 0x44);
}

// With two devices in use a free is kept as with one, on either, whatever the host was told on the other's streams.
TEST_F(HostEffects, S30b_TwoDevicesAndNothingIsLost) {
  OK(cudaSetDevice(1));
  uint8_t* const theirs = Malloc(kMiB);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(theirs, 0x77, kMiB, stream));
  OK(cudaMemcpyAsync(pinned_, theirs, kMiB, cudaMemcpyDeviceToHost, stream));
  OK(cudaSetDevice(0));
  OK(cudaMemcpyAsync(pinned_ + kMiB / 2, theirs, kMiB / 2, cudaMemcpyDeviceToHost, stream));
  const Tally tally("allocator");
  OK(cudaFree(theirs));
  OK(cudaFree(block_));
  EXPECT_EQ(pinned_[0], 0x77);
  EXPECT_EQ(pinned_[kMiB - 1], 0x77);
  PARKED(tally, 2);
}

// A kernel that writes pinned memory through the address that the program asked for: nobody sees which work that is.
TEST_F(HostEffects, S30b_MappedMemory) {
  void* mapped = nullptr;
  OK(cudaHostGetDevicePointer(&mapped, pinned_, 0));
  Backlog(a_);
  OK(LaunchFill(mapped, kMiB, 0x55, a_));
  const Tally tally("allocator");
  OK(cudaFree(block_));
  EXPECT_EQ(pinned_[0], 0x55);
  DECIDED(tally, "freed.host_effect", 1);
}

// Another process may learn through an event that work has run: which work it relies on cannot be seen here.
TEST_F(HostEffects, S30b_AnEventOfSeveralProcesses) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
  cudaIpcEventHandle_t handle;
  OK(cudaIpcGetEventHandle(&handle, event));
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  OK(cudaFree(block_));
  EXPECT_EQ(Pending(a_), 0);
}

class FullWait : public HostEffects {
 protected:
  FullWait() { StartWith("SLIPSTREAM_ALLOCATOR_FREE_SYNCHRONIZES", "true"); }
};

TEST_F(FullWait, S30b_AllWorkHasRun) {
  Backlog(a_);
  Backlog(nullptr);
  const Tally tally("allocator");
  OK(cudaFree(block_));
  EXPECT_EQ(Pending(a_), 0);
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  RETURNS(cudaSuccess, cudaStreamQuery(nullptr));
  PARKED(tally, 1);
}

}  // namespace
}  // namespace rules
