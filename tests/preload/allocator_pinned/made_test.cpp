// Memory that is filled first and registered then is, for the program, what the driver would have allocated.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/preload/allocator_pinned/pinned_test.h"

namespace pinned {
namespace {

TEST_F(Pinned, Others_MadeMemoryHasTheAttributesOfAnAllocation) {
  const Tally tally("allocator");
  for (const unsigned asked : {cudaHostAllocDefault, cudaHostAllocPortable}) {
    uint8_t* const memory = Allocate(kMade, 0x11, asked);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0U);
    for (const size_t offset : {size_t{0}, size_t{5}, kMade - 1}) {
      cudaPointerAttributes attributes = {};
      OK(cudaPointerGetAttributes(&attributes, memory + offset));
      EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
      EXPECT_EQ(attributes.device, 0);
      EXPECT_EQ(attributes.devicePointer, memory + offset);
      EXPECT_EQ(attributes.hostPointer, memory + offset);
      unsigned flags = 77;
      OK(cudaHostGetFlags(&flags, memory + offset));
      EXPECT_EQ(flags, asked | cudaHostAllocMapped);  // with unified addressing always mapped
    }
    RETURNS(cudaErrorInvalidValue, cudaHostGetFlags(nullptr, memory));
  }
  (void)cudaGetLastError();
  DECIDED(tally, "pinned.made", 2);
}

TEST_F(Pinned, Others_MadeMemoryCannotBeUnregistered) {
  uint8_t* const memory = Allocate(kMade, 0x11);
  RETURNS(cudaErrorInvalidValue, cudaHostUnregister(memory));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  RETURNS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(memory + 4096));
  RETURNS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(memory, 4096, 0));
  (void)cudaGetLastError();
  EXPECT_EQ(TypeOf(memory), cudaMemoryTypeHost);
  Backlog(a_);
  OK(cudaMemcpyAsync(memory, device_, kMade, cudaMemcpyDeviceToHost, a_));
  EXPECT_TRUE(HoldsOnly(memory, 0x11, kMade));  // as late as pinned memory allows
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(memory, kOnDevice, kMade));
  OK(cudaFreeHost(memory));
}

// What the program registers itself is its own to unregister, whatever its size.
TEST_F(Pinned, Others_MemoryOfTheProgramIsLeftAlone) {
  std::vector<uint8_t> memory(kMade);
  OK(cudaHostRegister(memory.data(), kMade, cudaHostRegisterPortable));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(memory.data()));
  unsigned flags = 0;
  RETURNS(cudaErrorInvalidValue, cudaHostGetFlags(&flags, memory.data()));
  OK(cudaHostUnregister(memory.data()));
}

TEST_F(Pinned, Others_MadeMemoryIsTheDevicesToo) {
  uint8_t* const memory = Allocate(kMade, 0x11);
  OK(LaunchFill(memory, kMade, 0x22, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(memory, 0x22, kMade));
  OK(cudaSetDevice(1));
  OK(LaunchFill(memory, kMade, 0x33, nullptr));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(memory, 0x33, kMade));
}

TEST_F(Pinned, Others_MemoryThatCannotBeRegisteredIsTheDrivers) {
  const Tally tally("allocator");
  if (rules::Engine()) {
    OK(simFailCall("cuMemHostRegister_v2", CUDA_ERROR_OUT_OF_MEMORY, 1, 0));
  }
  uint8_t* const memory = Allocate(kMade, 0x11);
  EXPECT_EQ(TypeOf(memory), cudaMemoryTypeHost);
  DECIDED(tally, "pinned.made", 0);
  OK(cudaGetLastError());
  OK(cudaFreeHost(memory));
}

// Where registered memory has another address on the device, a kernel could not use the plain one.
TEST_F(Pinned, Others_DevicesThatCannotUseTheHostsAddress) {
  OK(simSetDeviceAttribute(1, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0));
  const Tally tally("allocator");
  uint8_t* const memory = Allocate(kMade, 0x11);
  DECIDED(tally, "pinned.made", 0);
  DECIDED(tally, "pinned.passed", 1);
  OK(cudaFreeHost(memory));
}

class PinnedNeverMade : public Pinned {
 protected:
  PinnedNeverMade() { setenv("SLIPSTREAM_ALLOCATOR_PINNED_FILL_FROM", "0", 1); }
};

TEST_F(PinnedNeverMade, Others_ThePolicySaysNever) {
  const Tally tally("allocator");
  uint8_t* const memory = Allocate(kMade, 0x11);
  OK(cudaFreeHost(memory));
  DECIDED(tally, "pinned.made", 0);
  DECIDED(tally, "pinned.parked", 1);
}

class PinnedAlone : public PinnedOfSize {
 protected:
  PinnedAlone() {
    setenv("SLIPSTREAM_TRANSFER_H2D", "off", 1);
    setenv("SLIPSTREAM_TRANSFER_D2H", "off", 1);
  }
};
INSTANTIATE_TEST_SUITE_P(Made, PinnedAlone, ::testing::Values(kAllocated, kMade), SizeName);

TEST_P(PinnedAlone, Others_ThePoolServesWithoutTheTransferEngine) {
  const Tally tally("allocator");
  uint8_t* const memory = Allocate(GetParam(), 0x11);
  DownUnseen(memory, GetParam(), a_);
  OK(cudaFreeHost(memory));
  uint8_t* const second = Allocate(GetParam(), 0x22);
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(second, 0x22, GetParam()));
  DECIDED(tally, "pinned.parked", 1);
}

// Every thread finds its own bytes in what it was given.
TEST_F(Pinned, Others_ManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int round = 0; round < 40; ++round) {
        const size_t bytes = round % 8 == 0 ? kMade : size_t{4096} << (round % 3);
        void* memory = nullptr;
        if (cudaMallocHost(&memory, bytes) != cudaSuccess) {
          ++wrong;
          continue;
        }
        const auto value = static_cast<uint8_t>(t * 40 + round);
        auto* const begin = static_cast<uint8_t*>(memory);
        std::memset(begin, value, bytes);
        std::this_thread::yield();
        if (!HoldsOnly(begin, value, bytes)) ++wrong;
        if (cudaFreeHost(memory) != cudaSuccess) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  OK(cudaGetLastError());
}

// A destructor that runs behind everything else frees what it holds, and is told that it did.
struct FreesAtExit {
  void* memory = nullptr;
  ~FreesAtExit() {
    if (memory != nullptr && cudaFreeHost(memory) != cudaSuccess) _exit(1);
  }
} held;

TEST_F(Pinned, Others_MemoryIsFreedWhileTheProcessExits) { held.memory = Allocate(kMade, 0x11); }

}  // namespace
}  // namespace pinned
