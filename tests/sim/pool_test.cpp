// Stream-ordered memory.
#include <unistd.h>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using PoolTest = Sim;

TEST_F(PoolTest, MemoryBelongsToItsStreamFirst) {
  void* block = nullptr;
  OK(cudaMallocAsync(&block, 256, a_));
  OK(LaunchFill(block, 256, 7, b_));  // does not wait for the allocation: clobbered when that runs
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(Byte(block), 0xA5);
}

TEST_F(PoolTest, AFreedBlockGoesToTheNextAllocationOfItsStreamAtOnce) {
  void* first = nullptr;
  void* second = nullptr;
  void* elsewhere = nullptr;
  OK(cudaMallocAsync(&first, 256, a_));
  OK(LaunchFill(first, 256, 7, a_));
  OK(LaunchMove(device_, first, 256, a_));
  OK(cudaFreeAsync(first, a_));
  OK(cudaMallocAsync(&elsewhere, 256, b_));
  EXPECT_NE(elsewhere, first);
  OK(cudaMallocAsync(&second, 256, a_));
  EXPECT_EQ(second, first);
  OK(LaunchFill(second, 256, 8, a_));
  EXPECT_EQ(Byte(device_), 7);
  EXPECT_EQ(Byte(second), 8);  // the pending free was not of this allocation
  OK(cudaFreeAsync(second, a_));
  RETURNS(cudaErrorInvalidValue, cudaFreeAsync(second, a_));
}

TEST_F(PoolTest, ASmallerAllocationDoesNotCutOffPendingWorkOnTheOneBefore) {
  void* first = nullptr;
  void* second = nullptr;
  OK(cudaMallocAsync(&first, 256, a_));
  OK(LaunchFill(first, 256, 7, a_));
  OK(LaunchMove(device_, first, 256, a_));
  OK(cudaFreeAsync(first, a_));
  OK(cudaMallocAsync(&second, 100, a_));
  OK(LaunchFill(second, 100, 8, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Byte(device_, 255), 7);
  EXPECT_EQ(Byte(second), 8);
}

TEST_F(PoolTest, UseAfterTheFreeRanFaults) {
  void* block = nullptr;
  OK(cudaMallocAsync(&block, 256, a_));
  OK(cudaFreeAsync(block, a_));
  OK(LaunchFill(block, 256, 7, a_));
  RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
}

TEST_F(PoolTest, FreeOfPoolMemoryWaitsForNothing) {
  void* block = nullptr;
  OK(cudaMallocAsync(&block, 256, a_));
  OK(cudaStreamSynchronize(a_));
  Log log;
  OK(LaunchAppend(&log, 1, b_));
  OK(cudaFree(block));
  EXPECT_TRUE(log.entries.empty());
  simQuiesce();  // the log goes
}

TEST_F(PoolTest, FreeAsyncTakesOrdinaryMemoryAndNull) {
  OK(cudaFreeAsync(device_, a_));
  OK(cudaFreeAsync(nullptr, a_));
  OK(cudaStreamSynchronize(a_));
  RETURNS(cudaErrorInvalidValue, cudaFree(device_));
}

TEST_F(PoolTest, AttributesCount) {
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  void* block = nullptr;
  OK(cudaMallocAsync(&block, 1000, a_));
  uint64_t used = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 1024u);
  OK(cudaFreeAsync(block, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used));
  EXPECT_EQ(used, 1024u);
  uint64_t threshold = 77;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  threshold = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT_EQ(threshold, 77u);
}

TEST_F(PoolTest, PendingFreesAreRunBeforeMemoryIsSaidToBeOut) {
  OK(simSetDeviceMemory(0, 1 << 20));
  void* block = nullptr;
  OK(cudaMallocAsync(&block, 600 << 10, a_));
  OK(cudaFreeAsync(block, a_));
  void* second = nullptr;
  OK(cudaMallocAsync(&second, 700 << 10, b_));
  RETURNS(cudaErrorMemoryAllocation, cudaMallocAsync(&block, 700 << 10, b_));
  OK(simSetDeviceMemory(0, 1 << 30));
}

TEST_F(PoolTest, OwnPoolsAndWhoIsCurrent) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaDeviceSetMemPool(0, pool));
  void* block = nullptr;
  OK(cudaMallocAsync(&block, 512, a_));
  uint64_t used = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 512u);
  OK(cudaMemPoolDestroy(pool));
  cudaMemPool_t now = nullptr;
  cudaMemPool_t standard = nullptr;
  OK(cudaDeviceGetMemPool(&now, 0));
  OK(cudaDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_EQ(now, standard);
  RETURNS(cudaErrorInvalidValue, cudaMemPoolDestroy(standard));
}

TEST_F(PoolTest, APoolMadeToBeSharedCanBeGivenAway) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t own = nullptr;
  cudaMemPool_t shared = nullptr;
  OK(cudaMemPoolCreate(&own, &properties));
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  OK(cudaMemPoolCreate(&shared, &properties));
  int file = -1;
  RETURNS(cudaErrorInvalidValue,
          cudaMemPoolExportToShareableHandle(&file, own, cudaMemHandleTypePosixFileDescriptor, 0));
  OK(cudaMemPoolExportToShareableHandle(&file, shared, cudaMemHandleTypePosixFileDescriptor, 0));
  EXPECT_EQ(close(file), 0);
  void* block = nullptr;
  void* private_block = nullptr;
  OK(cudaMallocFromPoolAsync(&block, 512, shared, a_));
  OK(cudaMallocFromPoolAsync(&private_block, 512, own, a_));
  cudaMemPoolPtrExportData data = {};
  OK(cudaMemPoolExportPointer(&data, block));
  RETURNS(cudaErrorInvalidValue, cudaMemPoolExportPointer(&data, private_block));
  uint64_t types = 0;
  OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, reinterpret_cast<CUdeviceptr>(block)));
  EXPECT_EQ(types, static_cast<uint64_t>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

}  // namespace
}  // namespace simtest
