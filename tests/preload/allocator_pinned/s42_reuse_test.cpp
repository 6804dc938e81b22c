// S42: pinned memory returns to use only after all work before its free is seen to have run; its flags are part of what
// must be the same; memory whose device address was taken is not used again.
#include <cstdlib>

#include "tests/preload/allocator_pinned/pinned_test.h"

namespace pinned {
namespace {

INSTANTIATE_TEST_SUITE_P(Sizes, PinnedOfSize, ::testing::Values(kAllocated, kMade), SizeName);

TEST_P(PinnedOfSize, S42_AWriteOfTheDeviceComesBeforeTheNextUse) {
  const size_t bytes = GetParam();
  const Tally tally("allocator");
  uint8_t* const first = Allocate(bytes, 0x11);
  DownUnseen(first, bytes, a_);
  OK(cudaFreeHost(first));
  uint8_t* const second = Allocate(bytes, 0x22);
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(second, 0x22, bytes));
  DECIDED(tally, "pinned.parked", 1);
  DECIDED(tally, "pinned.reused", 0);
  OK(cudaGetLastError());
}

TEST_P(PinnedOfSize, S42_AReadOfTheDeviceComesBeforeTheNextUse) {
  const size_t bytes = GetParam();
  uint8_t* const first = Allocate(bytes, 0x11);
  UpUnseen(first, bytes, a_);
  OK(cudaFreeHost(first));
  Allocate(bytes, 0x22);
  OK(cudaStreamSynchronize(a_));
  std::vector<uint8_t> seen(bytes);
  OK(cudaMemcpy(seen.data(), device_, bytes, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(HoldsOnly(seen.data(), 0x11, bytes));
}

// A kernel of a library with its own runtime has the plain address.
TEST_P(PinnedOfSize, S42_AKernelThatNobodySawComesBeforeTheNextUse) {
  size_t bytes = GetParam();
  uint8_t* first = Allocate(bytes, 0x11);
  Backlog(a_);
  int value = 0x33;
  void* arguments[] = {&first, &bytes, &value};
  OK(simLaunchUnseen(simtest::Address(&simtest::Fill), 1, 32, arguments, a_));
  OK(cudaFreeHost(first));
  uint8_t* const second = Allocate(bytes, 0x22);
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(second, 0x22, bytes));
}

TEST_P(PinnedOfSize, S42contexts_WorkOfAnotherDeviceComesBeforeTheNextUse) {
  const size_t bytes = GetParam();
  OK(cudaSetDevice(1));
  cudaStream_t far = nullptr;
  uint8_t* there = nullptr;
  OK(cudaStreamCreateWithFlags(&far, cudaStreamNonBlocking));
  OK(cudaMalloc(reinterpret_cast<void**>(&there), bytes));
  OK(cudaMemset(there, 0x44, bytes));
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(0));
  uint8_t* const first = Allocate(bytes, 0x11);
  OK(cudaSetDevice(1));
  for (int i = 0; i < 64; ++i) {
    OK(LaunchFill(there, 1, 0x44, far));
  }
  OK(cuMemcpyDtoHAsync(first, reinterpret_cast<CUdeviceptr>(there), bytes, far));
  OK(cudaSetDevice(0));
  OK(cudaFreeHost(first));
  // The first question whether this device is done with the memory may be answered "not ready".
  uint8_t* const second = Allocate(bytes, 0x22);
  uint8_t* const third = Allocate(bytes, 0x22);
  OK(cudaSetDevice(1));
  OK(cudaStreamSynchronize(far));
  EXPECT_TRUE(HoldsOnly(second, 0x22, bytes));
  EXPECT_TRUE(HoldsOnly(third, 0x22, bytes));
}

TEST_P(PinnedOfSize, Others_C17_ReuseOfWhatTheDeviceIsDoneWith) {
  const size_t bytes = GetParam();
  const Tally tally("allocator");
  uint8_t* const first = Allocate(bytes, 0x11);
  DownUnseen(first, bytes, a_);
  OK(cudaFreeHost(first));
  Settle();
  for (int round = 0; round < 5; ++round) {
    uint8_t* const next = Allocate(bytes, 0x22);
    OK(cudaMemcpyAsync(next, device_, bytes, cudaMemcpyDeviceToHost, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(HoldsOnly(next, kOnDevice, bytes));
    OK(cudaFreeHost(next));
    Settle();
  }
  DECIDED(tally, "pinned.parked", 6);
  DECIDED(tally, "pinned.reused", 5);
  DECIDED(tally, "pinned.made", bytes == kMade ? 1U : 0U);
  OK(cudaGetLastError());
}

TEST_F(Pinned, Others_ReuseIsOfTheSameSizeOrALittleMore) {
  const Tally tally("allocator");
  uint8_t* const small = Allocate(kAllocated, 0x11);
  OK(cudaFreeHost(small));
  Settle();
  Allocate(kAllocated - 4096, 0x22);
  Allocate(kAllocated + 4096, 0x33);
  DECIDED(tally, "pinned.reused", 0);
  Allocate(kAllocated, 0x44);
  DECIDED(tally, "pinned.reused", 1);
}

TEST_F(Pinned, S42flags_OtherFlagsAreOtherMemory) {
  const Tally tally("allocator");
  uint8_t* const portable = Allocate(kAllocated, 0x11, cudaHostAllocPortable);
  OK(cudaFreeHost(portable));
  Settle();
  uint8_t* const plain = Allocate(kAllocated, 0x22);
  unsigned flags = 0;
  OK(cudaHostGetFlags(&flags, plain));
  EXPECT_EQ(flags & cudaHostAllocPortable, 0U);
  DECIDED(tally, "pinned.reused", 0);
  uint8_t* const again = Allocate(kAllocated, 0x33, cudaHostAllocPortable);
  OK(cudaHostGetFlags(&flags, again));
  EXPECT_NE(flags & cudaHostAllocPortable, 0U);
  DECIDED(tally, "pinned.reused", 1);
}

// The transfer engine answers for nothing any more once a device address is out; here nobody asks it.
class PinnedWithFullWait : public PinnedOfSize {
 protected:
  PinnedWithFullWait() { setenv("SLIPSTREAM_ALLOCATOR_FREE_SYNCHRONIZES", "true", 1); }
};
INSTANTIATE_TEST_SUITE_P(Sizes, PinnedWithFullWait, ::testing::Values(kAllocated, kMade), SizeName);

TEST_P(PinnedWithFullWait, S42mapped_MemoryThatTheDeviceHasTheAddressOfIsFreed) {
  const size_t bytes = GetParam();
  uint8_t* const first = Allocate(bytes, 0x11);
  void* mapped = nullptr;
  OK(cudaHostGetDevicePointer(&mapped, first + 100, 0));
  EXPECT_EQ(mapped, first + 100);
  const Tally tally("allocator");
  OK(cudaFreeHost(first));
  EXPECT_EQ(TypeOf(first), cudaMemoryTypeUnregistered);
  DECIDED(tally, "pinned.freed.mapped", 1);
  DECIDED(tally, "pinned.parked", 0);
}

TEST_P(PinnedWithFullWait, Others_ReuseAfterAFullWait) {
  const Tally tally("allocator");
  uint8_t* const first = Allocate(GetParam(), 0x11);
  DownUnseen(first, GetParam(), a_);
  OK(cudaFreeHost(first));
  EXPECT_EQ(simPendingOperations(a_), 0);
  Settle();
  Allocate(GetParam(), 0x22);
  DECIDED(tally, "pinned.parked", 1);
  DECIDED(tally, "pinned.reused", 1);
}

TEST_F(Pinned, Others_MappedMemoryIsLeftAlone) {
  const Tally tally("allocator");
  uint8_t* const first = Allocate(kMade, 0x11, cudaHostAllocMapped);
  OK(LaunchFill(first, kMade, 0x22, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(first, 0x22, kMade));
  OK(cudaFreeHost(first));
  EXPECT_EQ(TypeOf(first), cudaMemoryTypeUnregistered);
  DECIDED(tally, "pinned.made", 0);
  DECIDED(tally, "pinned.parked", 0);
}

}  // namespace
}  // namespace pinned
