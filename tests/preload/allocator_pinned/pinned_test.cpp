#include "tests/preload/allocator_pinned/pinned_test.h"

#include <cstdlib>
#include <cstring>

namespace pinned {

::testing::AssertionResult HoldsOnly(const uint8_t* host, uint8_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (host[i] != value) {
      return ::testing::AssertionFailure()
             << "byte " << i << " of " << count << " is " << int{host[i]} << " and not " << int{value};
    }
  }
  return ::testing::AssertionSuccess();
}

cudaMemoryType TypeOf(const void* address) {
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, address), cudaSuccess);
  return attributes.type;
}

void Pinned::SetUp() {
  simtest::RegisterKernels();
  if (std::getenv("SIMCUDA_SEED") == nullptr) {
    OK(simSetSeed(0));
  }
  OK(cudaSetDevice(0));
  OK(cudaMalloc(reinterpret_cast<void**>(&device_), kMade));
  OK(cudaMalloc(reinterpret_cast<void**>(&scratch_), 4096));
  OK(cudaMemset(device_, kOnDevice, kMade));
  OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
  // The transfer engine tracks work from its first question on; what was submitted before counts as anything.
  uint8_t* first = Allocate(4096, 0);
  OK(cudaFreeHost(first));
  Settle();
}

void Pinned::Settle() {
  OK(cudaDeviceSynchronize());
  OK(simQuiesce());
}

uint8_t* Pinned::Allocate(size_t bytes, uint8_t value, unsigned flags) {
  void* memory = nullptr;
  EXPECT_EQ(flags == cudaHostAllocDefault ? cudaMallocHost(&memory, bytes) : cudaHostAlloc(&memory, bytes, flags),
            cudaSuccess);
  if (memory != nullptr) std::memset(memory, value, bytes);
  return static_cast<uint8_t*>(memory);
}

void Pinned::Backlog(cudaStream_t stream) {
  for (int i = 0; i < 64; ++i) {
    OK(LaunchFill(scratch_, 4096, i, stream));
  }
}

void Pinned::DownUnseen(uint8_t* host, size_t bytes, cudaStream_t stream) {
  ASSERT_NO_FATAL_FAILURE(Backlog(stream));
  OK(cuMemcpyDtoHAsync(host, reinterpret_cast<CUdeviceptr>(device_), bytes, stream));
}

void Pinned::UpUnseen(const uint8_t* host, size_t bytes, cudaStream_t stream) {
  ASSERT_NO_FATAL_FAILURE(Backlog(stream));
  OK(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(device_), host, bytes, stream));
}

}  // namespace pinned

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  rules::LimitTime();
  return RUN_ALL_TESTS();
}
