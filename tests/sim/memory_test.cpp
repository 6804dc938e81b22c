// Device memory: what it is to the host, what frees and sizes answer, how little there is.
#include <cstdint>
#include <vector>

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

TEST_F(MemoryTest, MemoryThatCanBePinnedIsFiniteToo) {
  OK(simSetPinnedMemory(size_t{4} << 20));
  void* most = nullptr;
  OK(cudaMallocHost(&most, size_t{3} << 20));
  void* more = nullptr;
  RETURNS(cudaErrorMemoryAllocation, cudaHostAlloc(&more, size_t{3} << 20, cudaHostAllocDefault));
  std::vector<uint8_t> memory(size_t{3} << 20);
  RETURNS(cudaErrorMemoryAllocation, cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  OK(cudaFreeHost(most));
  OK(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault));
  OK(cudaHostUnregister(memory.data()));
  OK(simSetPinnedMemory(SIZE_MAX));
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

// What a program may ask to learn what it may do with memory (all measured).
TEST_F(MemoryTest, ManyAttributesInOneCall) {
  struct Answer {
    unsigned type = 77;
    int ipc = 77;
    int managed = 77;
    int ordinal = 77;
    CUmemoryPool pool = reinterpret_cast<CUmemoryPool>(uintptr_t{77});
    CUdeviceptr start = 77;
    size_t size = 77;
  };
  const auto ask = [](const void* pointer) {
    Answer answer;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* data[] = {&answer.type, &answer.ipc,   &answer.managed, &answer.ordinal,
                    &answer.pool, &answer.start, &answer.size};
    EXPECT_EQ(cuPointerGetAttributes(7, attributes, data, reinterpret_cast<CUdeviceptr>(pointer)), CUDA_SUCCESS);
    return answer;
  };
  const Answer pageable = ask(pageable_.data());  // success, and a type that is none
  EXPECT_EQ(pageable.type, 0u);
  EXPECT_EQ(pageable.ipc, 0);
  EXPECT_EQ(pageable.start, 0u);
  EXPECT_EQ(pageable.ordinal, -2);
  const Answer device = ask(device_ + 5);
  EXPECT_EQ(device.type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(device.ipc, 1);
  EXPECT_EQ(device.managed, 0);
  EXPECT_EQ(device.ordinal, 0);
  EXPECT_EQ(device.pool, nullptr);
  EXPECT_EQ(device.start, reinterpret_cast<CUdeviceptr>(device_));
  EXPECT_EQ(device.size, kBytes);
  const Answer pinned = ask(pinned_);
  EXPECT_EQ(pinned.type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  EXPECT_EQ(pinned.ipc, 0);
  void* pooled = nullptr;
  OK(cudaMallocAsync(&pooled, 512, a_));
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_EQ(ask(pooled).pool, pool);
  EXPECT_EQ(ask(pooled).ipc, 0);
}

TEST_F(MemoryTest, SyncMemopsIsAnswered) {
  const auto address = reinterpret_cast<CUdeviceptr>(device_);
  int value = 77;
  OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  EXPECT_EQ(value, 0);
  const unsigned on = 1;
  OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address + 9));
  EXPECT_EQ(value, 1);
}

// A hint about plain host memory is an error, unless the device reaches it by itself.
TEST_F(MemoryTest, HintsAboutPageableMemory) {
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  RETURNS(cudaErrorInvalidValue, cudaMemPrefetchAsync(pageable_.data(), kBytes, device, 0, a_));
  RETURNS(cudaErrorInvalidValue, cudaMemAdvise(pageable_.data(), kBytes, cudaMemAdviseSetReadMostly, device));
  OK(simSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1));
  OK(cudaMemPrefetchAsync(pageable_.data(), kBytes, device, 0, a_));
  OK(cudaMemAdvise(pageable_.data(), kBytes, cudaMemAdviseSetReadMostly, device));
  RETURNS(cudaErrorInvalidValue, cudaMemPrefetchAsync(device_, kBytes, device, 0, a_));
  OK(simSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
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

// What tells registered memory from memory that CUDA allocated (cuda.h): the flags are of allocations only, and either
// is given back by its own function.
TEST_F(MemoryTest, RegisteredMemoryIsNotAnAllocation) {
  OK(cudaHostRegister(pageable_.data(), kBytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, pageable_.data() + 5));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, pageable_.data() + 5);
  void* mapped = nullptr;
  OK(cudaHostGetDevicePointer(&mapped, pageable_.data(), 0));
  EXPECT_EQ(mapped, pageable_.data());
  unsigned flags = 77;
  RETURNS(cudaErrorInvalidValue, cudaHostGetFlags(&flags, pageable_.data()));
  RETURNS(cudaErrorInvalidValue, cudaFreeHost(pageable_.data()));
  OK(cudaHostUnregister(pageable_.data()));
  void* portable = nullptr;
  OK(cudaHostAlloc(&portable, kBytes, cudaHostAllocPortable));
  OK(cudaHostGetFlags(&flags, static_cast<uint8_t*>(portable) + 5));
  EXPECT_EQ(flags & cudaHostAllocPortable, unsigned{cudaHostAllocPortable});
  OK(cudaHostGetFlags(&flags, pinned_));
  EXPECT_EQ(flags & cudaHostAllocPortable, 0U);
}

TEST_F(MemoryTest, RegistrationFlagsAreChecked) {
  RETURNS(cudaErrorInvalidValue, cudaHostRegister(pageable_.data(), kBytes, 1U << 4));
  OK(cudaHostRegister(pageable_.data(), kBytes, cudaHostRegisterPortable));
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
