// S02: memory that the device reaches by itself is not staged.
#include <cstdlib>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class SystemMemory : public Cold {
 protected:
  void Start(int attribute) {
    ASSERT_EQ(simSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1), 0);
    ASSERT_EQ(simSetDeviceAttribute(0, attribute, 1), 0);
    ASSERT_NO_FATAL_FAILURE(Prepare());
  }
  void SetUp() override {}
  // Before the source is gone.
  void TearDown() override { OK(cudaDeviceSynchronize()); }
};

// Copies read ordinary memory when they get there, so a kernel may still write it.
TEST_F(SystemMemory, S02_WithHostPageTablesTheSourceIsReadInStreamOrder) {
  Start(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge}) {
    Backlog(a_);
    OK(LaunchFill(source_.data(), bytes, 7, a_));
    OK(CopyUp(device_, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(Pending(a_), 0);
    EXPECT_TRUE(HoldsOnly(device_, 7, bytes));
    source_.assign(kHuge, 0x11);
  }
  DECIDED(tally, "h2d.declined.system_memory", 2);
  NEVER_DECIDED(tally, "h2d.promoted");
  NEVER_DECIDED(tally, "sync.skipped");
}

TEST_F(SystemMemory, S02_HmmIsPrivateUntilTheProgramAdvises) {
  Start(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  WarmUp();
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  DECIDED(tally, "h2d.promoted.small", 1);
  OK(AdviseReadMostly(source_.data(), kSmall));
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.declined.system_memory", 1);
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
}

// The driver may then read even a small source when the stream gets there.
TEST_F(SystemMemory, S02_WithHmmASmallSourceIsFreeAtReturn) {
  Start(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  WarmUp();
  OK(CopyUp(device_, source_.data(), kLarge, a_));  // staging memory is there
  OK(cudaDeviceSynchronize());
  const Tally tally("transfer");
  const std::vector<uint8_t> pattern = Pattern(kSmall, 3);
  for (const bool blocking : {false, true}) {
    std::copy(pattern.begin(), pattern.end(), source_.begin());
    cudaStream_t const stream = blocking ? nullptr : a_;
    Backlog(stream);
    if (blocking) {
      OK(cudaMemcpy(device_, source_.data(), kSmall, cudaMemcpyHostToDevice));
    } else {
      OK(CopyUp(device_, source_.data(), kSmall, stream));
      OK(cudaStreamSynchronize(stream));
    }
    std::fill(source_.begin(), source_.end(), uint8_t{0});
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(device_, pattern)) << blocking;
  }
  DECIDED(tally, "h2d.promoted.small", 2);
  DECIDED(tally, "sync.skipped", 2);
}

TEST_F(SystemMemory, S02_HmmIsPrivateUntilTheProgramPrefetches) {
  Start(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  WarmUp();
  OK(PrefetchToDevice(source_.data(), kSmall, b_));
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "h2d.declined.system_memory", 1);
}

TEST_F(SystemMemory, S02_HmmStandsAsideWhereThePolicySaysSo) {
  StartWith("SLIPSTREAM_TRANSFER_HMM", "stand_aside");
  Start(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "h2d.declined.system_memory", 1);
  NEVER_DECIDED(tally, "h2d.promoted");
}

// Hints about managed memory, which is not ordinary memory, say nothing about the latter.
TEST_F(SystemMemory, S02_HintsAboutManagedMemoryChangeNothing) {
  Start(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  WarmUp();
  void* managed = nullptr;
  OK(cudaMallocManaged(&managed, kSmall));
  OK(PrefetchToDevice(managed, kSmall, b_));
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "h2d.promoted.small", 1);
}

}  // namespace
}  // namespace rules
