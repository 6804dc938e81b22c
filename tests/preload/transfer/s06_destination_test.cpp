// S06: the destination is plain memory of this device.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

// CUDA: a copy from host memory to host memory is complete when the call returns, asynchronous or not.
TEST_F(Rule, S06_AHostDestinationIsCompleteAtReturn) {
  const Tally tally;
  source_ = Pattern(kHuge, 1);
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault}) {
    for (const size_t bytes : {kSmall, kLarge}) {
      std::memset(pinned_, 0, kLarge);
      Backlog(a_);
      OK(cudaMemcpyAsync(pinned_, source_.data(), bytes, kind, a_));
      EXPECT_EQ(std::memcmp(pinned_, source_.data(), bytes), 0) << kind << " " << bytes;
    }
  }
  DECIDED_AT_LEAST(tally, "aside.destination", 2);
  NEVER_DECIDED(tally, "promoted");
}

TEST_F(Rule, S06_AManagedDestinationIsSeenByTheHost) {
  uint8_t* managed = nullptr;
  OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), kLarge));
  const Tally tally;
  source_ = Pattern(kHuge, 2);
  for (const size_t bytes : {kSmall, kLarge}) {
    std::memset(managed, 0, kLarge);
    Backlog(a_);
    OK(CopyUp(managed, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(std::memcmp(managed, source_.data(), bytes), 0);
  }
  NEVER_DECIDED(tally, "promoted");
}

TEST_F(Rule, S06_AnotherDevicesMemory) {
  uint8_t* far = nullptr;
  OK(cudaSetDevice(1));
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kLarge));
  OK(cudaSetDevice(0));
  const Tally tally;
  source_ = Pattern(kHuge, 3);
  for (const size_t bytes : {kSmall, kLarge}) {
    Backlog(a_);
    OK(CopyUp(far, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(Holds(far, source_, bytes));
  }
  NEVER_DECIDED(tally, "promoted");
}

TEST_F(Rule, S06_TheEndOfAnAllocation) {
  for (const size_t bytes : {kSmall, kLarge}) {
    uint8_t* exact = nullptr;
    OK(cudaMalloc(reinterpret_cast<void**>(&exact), bytes));
    OK(cudaMemset(exact, 1, bytes));
    const Tally tally;
    RETURNS(cudaErrorInvalidValue, CopyUp(exact, source_.data(), bytes + 1, a_));
    RETURNS(cudaErrorInvalidValue, CopyUp(exact + 1, source_.data(), bytes, a_));
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
    RETURNS(cudaSuccess, cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(exact, 1, bytes));
    NEVER_DECIDED(tally, "promoted");
    OK(CopyUp(exact + 1, source_.data(), bytes - 1, a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(exact, 1, 1));
    EXPECT_TRUE(HoldsOnly(exact + 1, 0x11, bytes - 1));
    DECIDED(tally, bytes == kSmall ? "promoted.small" : "promoted.large", 1);
    OK(cudaFree(exact));
    RETURNS(cudaErrorInvalidValue, CopyUp(exact, source_.data(), bytes, a_));
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  }
}

// Memory of a stream-ordered pool is the device's as well, from the allocation's place in the stream on.
TEST_F(Rule, S06_PoolMemory) {
  const Tally tally;
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
  DECIDED(tally, "promoted.small", 1);
  DECIDED(tally, "promoted.large", 1);
}

}  // namespace
}  // namespace rules
