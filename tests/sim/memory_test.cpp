// Device memory: what it is to the host, what frees and sizes answer, how little there is.
#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using MemoryTest = Sim;
using MemoryDeathTest = Sim;

TEST_F(MemoryDeathTest, TheHostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH({ *device_ = 1; }, "");
}

TEST_F(MemoryTest, FreshMemoryIsGarbageAndFreedMemoryComesBackFirst) {
  EXPECT_EQ(Byte(device_), 0xA5);
  OK(cudaMemset(device_, 1, kBytes));
  OK(cudaFree(device_));
  uint8_t* again = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&again), kBytes));
  EXPECT_EQ(again, device_);
  EXPECT_EQ(Byte(again), 0xA5);
}

TEST_F(MemoryTest, FreesOfWhatIsNotAnAllocation) {
  RETURNS(cudaErrorInvalidValue, cudaFree(device_ + 512));
  RETURNS(cudaErrorInvalidValue, cudaFree(pinned_));
  RETURNS(cudaErrorInvalidValue, cudaFree(pageable_.data()));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(device_));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(pageable_.data()));
  RETURNS(cudaSuccess, cudaFree(nullptr));
  RETURNS(cudaSuccess, cudaFreeHost(nullptr));
  OK(cudaFree(device_));
  RETURNS(cudaErrorInvalidValue, cudaFree(device_));
  RETURNS(cudaErrorInvalidValue, cudaMemcpy(device_, pageable_.data(), 1, cudaMemcpyHostToDevice));
}

TEST_F(MemoryTest, ZeroSizesSucceedWithNull) {
  void* block = this;
  OK(cudaMalloc(&block, 0));
  EXPECT_EQ(block, nullptr);
  block = this;
  OK(cudaMallocHost(&block, 0));
  EXPECT_EQ(block, nullptr);
  block = this;
  OK(cudaMallocAsync(&block, 0, a_));
  EXPECT_EQ(block, nullptr);
}

TEST_F(MemoryTest, MemoryIsFiniteAndComesBack) {
  OK(simSetDeviceMemory(0, 1 << 20));
  size_t free_before = 0;
  size_t total = 0;
  OK(cudaMemGetInfo(&free_before, &total));
  EXPECT_EQ(total, size_t{1} << 20);
  void* big = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&big, 1 << 20));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());  // not sticky
  OK(cudaMalloc(&big, 1 << 19));
  RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&big, 1 << 19));
  size_t free_now = 0;
  OK(cudaMemGetInfo(&free_now, nullptr));
  EXPECT_EQ(free_before - free_now, size_t{1} << 19);
  OK(simSetDeviceMemory(0, 1 << 30));
}

TEST_F(MemoryTest, AddressRangesAreExact) {
  uint8_t* small = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&small), 100));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 512, 0u);
  CUdeviceptr base = 0;
  size_t size = 0;
  OK(cuMemGetAddressRange(&base, &size, reinterpret_cast<CUdeviceptr>(small + 99)));
  EXPECT_EQ(base, reinterpret_cast<CUdeviceptr>(small));
  EXPECT_EQ(size, 100u);
  RETURNS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, reinterpret_cast<CUdeviceptr>(small + 100)));
}

TEST_F(MemoryTest, PointerAttributesByKindOfMemory) {
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, device_ + 5));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.devicePointer, device_ + 5);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  OK(cudaPointerGetAttributes(&attributes, pinned_ + 5));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, pinned_ + 5);
  OK(cudaPointerGetAttributes(&attributes, pageable_.data()));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  uint8_t* managed = nullptr;
  OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), 64));
  OK(cudaPointerGetAttributes(&attributes, managed));
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes.hostPointer, managed);
}

TEST_F(MemoryTest, ManagedMemoryIsTheHostsTooButNotInOrder) {
  uint8_t* managed = nullptr;
  OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), 64));
  managed[0] = 1;
  OK(LaunchFill(managed, 64, 7, a_));
  EXPECT_EQ(managed[0], 1);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(managed[0], 7);
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  OK(cudaMemPrefetchAsync(managed, 64, device, 0, a_));
  OK(cudaMemAdvise(managed, 64, cudaMemAdviseSetReadMostly, device));
  int answer = 0;
  OK(cudaMemRangeGetAttribute(&answer, sizeof answer, cudaMemRangeAttributeReadMostly, managed, 64));
  EXPECT_EQ(answer, 1);
  RETURNS(cudaErrorInvalidValue, cudaMemPrefetchAsync(device_, 64, device, 0, a_));
}

TEST_F(MemoryTest, MappedHostMemoryIsSeenByKernels) {
  void* mapped = nullptr;
  OK(cudaHostGetDevicePointer(&mapped, pinned_, 0));
  OK(LaunchFill(mapped, kBytes, 7, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(pinned_[0], 7);
  RETURNS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&mapped, pageable_.data(), 0));
}

TEST_F(MemoryTest, RegistrationErrors) {
  OK(cudaHostRegister(pageable_.data(), kBytes, 0));
  RETURNS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(pageable_.data(), kBytes, 0));
  RETURNS(cudaErrorInvalidValue, cudaHostUnregister(pinned_));
  OK(cudaHostUnregister(pageable_.data()));
  RETURNS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pageable_.data()));
}

TEST_F(MemoryTest, AKernelReachesAPeerOnlyWithAccess) {
  OK(cudaSetDevice(1));
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), 64));
  OK(cudaSetDevice(0));
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  RETURNS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  OK(LaunchFill(far, 64, 7, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Byte(far), 7);
  OK(cudaDeviceDisablePeerAccess(1));
  OK(LaunchFill(far, 64, 8, a_));
  RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
}

TEST_F(MemoryTest, ResetFreesEverythingOfTheDevice) {
  OK(cudaDeviceReset());
  RETURNS(cudaErrorInvalidValue, cudaFree(device_));
  RETURNS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(a_));
  size_t free = 0;
  size_t total = 0;
  OK(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
}

}  // namespace
}  // namespace simtest
