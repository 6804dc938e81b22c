// Virtual memory management.
#include <unistd.h>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

constexpr size_t kGranule = size_t{2} << 20;

class VirtualMemoryTest : public Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    access_.location = properties_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemAddressReserve(&range_, 2 * kGranule, 0, 0, 0));
    OK(cuMemCreate(&handle_, kGranule, &properties_, 0));
  }
  CUmemAllocationProp properties_ = {};
  CUmemAccessDesc access_ = {};
  CUdeviceptr range_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
};

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

TEST_F(VirtualMemoryTest, TwoMapsOfOneHandleShowTheSameBytes) {
  OK(cuMemMap(range_, kGranule, 0, handle_, 0));
  OK(cuMemMap(range_ + kGranule, kGranule, 0, handle_, 0));
  OK(cuMemSetAccess(range_, 2 * kGranule, &access_, 1));
  OK(LaunchFill(Pointer(range_ + 17), 1, 7, a_));
  EXPECT_EQ(Byte(Pointer(range_ + kGranule + 17)), 7);
  OK(LaunchFill(Pointer(range_), 2 * kGranule, 9, a_));  // across both maps
  EXPECT_EQ(Byte(Pointer(range_ + 5)), 9);
}

TEST_F(VirtualMemoryTest, WithoutAccessWorkFaults) {
  OK(cuMemMap(range_, kGranule, 0, handle_, 0));
  RETURNS(cudaErrorInvalidValue, cudaMemcpyAsync(Pointer(range_), pinned_, 16, cudaMemcpyHostToDevice, a_));
  OK(LaunchFill(Pointer(range_), 1, 7, a_));
  RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
}

// Nothing waits in cuMemUnmap, so unmapping before a completed fence is an error that shows.
TEST_F(VirtualMemoryTest, WorkPendingAtTheUnmapFaults) {
  OK(cuMemMap(range_, kGranule, 0, handle_, 0));
  OK(cuMemSetAccess(range_, kGranule, &access_, 1));
  OK(LaunchFill(Pointer(range_), 1, 7, a_));
  OK(cuMemUnmap(range_, kGranule));
  RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
}

TEST_F(VirtualMemoryTest, MemoryLivesUntilTheLastMapAndReferenceAreGone) {
  size_t before = 0;
  size_t now = 0;
  OK(cudaMemGetInfo(&before, nullptr));
  OK(cuMemMap(range_, kGranule, 0, handle_, 0));
  OK(cuMemSetAccess(range_, kGranule, &access_, 1));
  OK(cuMemRelease(handle_));
  OK(LaunchFill(Pointer(range_), 1, 7, a_));
  EXPECT_EQ(Byte(Pointer(range_)), 7);
  CUmemGenericAllocationHandle again = 0;
  OK(cuMemRetainAllocationHandle(&again, Pointer(range_)));
  EXPECT_EQ(again, handle_);
  OK(cuMemRelease(again));
  OK(cuMemUnmap(range_, kGranule));
  OK(cudaMemGetInfo(&now, nullptr));
  EXPECT_EQ(now - before, kGranule);
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle_));
}

TEST_F(VirtualMemoryTest, WrongSizesAndPlacesAreRefused) {
  CUmemGenericAllocationHandle odd = 0;
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&odd, 4096, &properties_, 0));
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemMap(range_ + 4096, kGranule, 0, handle_, 0));
  OK(cuMemMap(range_, kGranule, 0, handle_, 0));
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemMap(range_, kGranule, 0, handle_, 0));
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range_, 2 * kGranule));  // still mapped
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(range_, 2 * kGranule));
  OK(cuMemUnmap(range_, kGranule));
  OK(cuMemAddressFree(range_, 2 * kGranule));
}

TEST_F(VirtualMemoryTest, MemoryIsFinite) {
  OK(simSetDeviceMemory(0, 8 << 20));
  std::vector<CUmemGenericAllocationHandle> handles;
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = CUDA_SUCCESS;
  while ((result = cuMemCreate(&handle, kGranule, &properties_, 0)) == CUDA_SUCCESS && handles.size() < 8) {
    handles.push_back(handle);
  }
  EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(handles.size(), 2u);  // one is there already, and some kilobytes of cudaMalloc
  OK(simSetDeviceMemory(0, 1 << 30));
}

TEST_F(VirtualMemoryTest, AnExportedHandleComesBackAsTheSameMemory) {
  OK(cuMemMap(range_, kGranule, 0, handle_, 0));
  int file = -1;
  OK(cuMemExportToShareableHandle(&file, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported = 0;
  OK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  OK(cuMemMap(range_ + kGranule, kGranule, 0, imported, 0));
  OK(cuMemSetAccess(range_, 2 * kGranule, &access_, 1));
  OK(LaunchFill(Pointer(range_ + 3), 1, 6, a_));
  EXPECT_EQ(Byte(Pointer(range_ + kGranule + 3)), 6);
}

// Measured: the attributes of an address know the reserved range, not the map.
TEST_F(VirtualMemoryTest, AttributesAnswerForTheWholeReservation) {
  OK(cuMemMap(range_ + kGranule, kGranule, 0, handle_, 0));
  OK(cuMemSetAccess(range_ + kGranule, kGranule, &access_, 1));
  CUdeviceptr start = 0;
  size_t size = 0;
  const CUdeviceptr inside = range_ + kGranule + 7;
  OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
  OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
  EXPECT_EQ(start, range_);
  EXPECT_EQ(size, 2 * kGranule);
  int ipc = 77;
  OK(cuPointerGetAttribute(&ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside));
  EXPECT_EQ(ipc, 0);
  uint64_t types = 0;
  OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, inside));
  EXPECT_EQ(types, static_cast<uint64_t>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

}  // namespace
}  // namespace simtest
