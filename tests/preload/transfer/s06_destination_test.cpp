// S06: the destination is plain memory of this device.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

// CUDA: a copy from host memory to host memory is complete when the call returns, asynchronous or not.
TEST_F(Rule, S06_AHostDestinationIsCompleteAtReturn) {
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 1);
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault}) {
    for (const size_t bytes : {kSmall, kLarge}) {
      std::memset(pinned_, 0, kLarge);
      Backlog(a_);
      OK(cudaMemcpyAsync(pinned_, source_.data(), bytes, kind, a_));
      EXPECT_EQ(std::memcmp(pinned_, source_.data(), bytes), 0) << kind << " " << bytes;
    }
  }
  DECIDED_AT_LEAST(tally, "h2d.declined.destination", 2);
  NEVER_DECIDED(tally, "h2d.promoted");
}

TEST_F(Rule, S06_AManagedDestinationIsSeenByTheHost) {
  uint8_t* managed = nullptr;
  OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), kLarge));
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 2);
  for (const size_t bytes : {kSmall, kLarge}) {
    std::memset(managed, 0, kLarge);
    Backlog(a_);
    OK(CopyUp(managed, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(std::memcmp(managed, source_.data(), bytes), 0);
  }
  NEVER_DECIDED(tally, "h2d.promoted");
}

// ... also if no hook saw it come.
TEST_F(Rule, S06_AManagedDestinationMadeByTheDriver) {
  CUdeviceptr managed = 0;
  OK(cuMemAllocManaged(&managed, kLarge, CU_MEM_ATTACH_GLOBAL));
  auto* const host = reinterpret_cast<uint8_t*>(managed);
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 5);
  for (const size_t bytes : {kSmall, kLarge}) {
    std::memset(host, 0, kLarge);
    Backlog(a_);
    OK(CopyUp(host, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(std::memcmp(host, source_.data(), bytes), 0);
  }
  DECIDED(tally, "h2d.declined.destination", 2);
}

TEST_F(Rule, S06_AnotherDevicesMemory) {
  uint8_t* far = nullptr;
  OK(cudaSetDevice(1));
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kLarge));
  OK(cudaSetDevice(0));
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 3);
  for (const size_t bytes : {kSmall, kLarge}) {
    Backlog(a_);
    OK(CopyUp(far, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(Holds(far, source_, bytes));
  }
  NEVER_DECIDED(tally, "h2d.promoted");
}

// Memory of another context of this device, whose work is in no order with this one's but by the synchronization.
TEST_F(Rule, S06_AnotherContextsMemory) {
  CUcontext own = nullptr;
  uint8_t* theirs = nullptr;
  uint8_t* read = nullptr;
  cudaStream_t stream = nullptr;
  OK(cuCtxCreate_v4(&own, nullptr, 0, 0));
  OK(cudaMalloc(reinterpret_cast<void**>(&theirs), kLarge));
  OK(cudaMalloc(reinterpret_cast<void**>(&read), kLarge));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cuCtxPopCurrent(nullptr));
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 6);
  for (const size_t bytes : {kSmall, kLarge}) {
    Backlog(a_);
    OK(CopyUp(theirs, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cuCtxPushCurrent(own));
    OK(LaunchMove(read, theirs, bytes, stream));
    OK(cuCtxPopCurrent(nullptr));
    WaitElsewhere(stream);
    EXPECT_TRUE(Holds(read, source_, bytes));
  }
  DECIDED(tally, "h2d.declined.destination", 2);
}

TEST_F(Rule, S06_TheEndOfAnAllocation) {
  for (const size_t bytes : {kSmall, kLarge}) {
    uint8_t* exact = nullptr;
    OK(cudaMalloc(reinterpret_cast<void**>(&exact), bytes));
    OK(cudaMemset(exact, 1, bytes));
    const Tally tally("transfer");
    RETURNS(cudaErrorInvalidValue, CopyUp(exact, source_.data(), bytes + 1, a_));
    RETURNS(cudaErrorInvalidValue, CopyUp(exact + 1, source_.data(), bytes, a_));
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
    RETURNS(cudaSuccess, cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(exact, 1, bytes));
    NEVER_DECIDED(tally, "h2d.promoted");
    OK(CopyUp(exact + 1, source_.data(), bytes - 1, a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(exact, 1, 1));
    EXPECT_TRUE(HoldsOnly(exact + 1, 0x11, bytes - 1));
    DECIDED(tally, bytes == kSmall ? "h2d.promoted.small" : "h2d.promoted.large", 1);
    OK(cudaFree(exact));
    RETURNS(cudaErrorInvalidValue, CopyUp(exact, source_.data(), bytes, a_));
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  }
}

// Memory of a stream-ordered pool is the device's as well, from the allocation's place in the stream on.
TEST_F(Rule, S06_PoolMemory) {
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 4);
  for (const size_t bytes : {kSmall, kLarge}) {
    void* block = nullptr;
    Backlog(a_);
    OK(cudaMallocAsync(&block, bytes, a_));
    OK(CopyUp(block, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaMemcpyAsync(other_, block, bytes, cudaMemcpyDeviceToDevice, a_));
    OK(cudaFreeAsync(block, a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(other_, source_, bytes));
  }
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 1);
}

}  // namespace
}  // namespace rules
