// S67: staging memory fits the container. Needs root, and a memory cgroup that another one can be made in.
#include <cstdlib>

#include "tests/preload/transfer/rule_test.h"
#include "tests/support/memory_cgroup.h"
#include "tests/support/plain_build.h"

namespace rules {
namespace {

using slipstream::test::MemoryCgroup;

constexpr size_t kCopy = 128 * kMiB;

class Container : public Cold {
 protected:
  // For one copy: the simulated device's memory is the machine's.
  Container() { StartWith("SLIPSTREAM_TRANSFER_DEVICE_STAGING", "128MiB"); }
};

// Copies of this size would have 384 MiB of staging memory, where there is enough.
TEST_F(Container, S67_StagingMemoryIsLittleOfWhatIsLeft) {
  NEEDS_NO_SANITIZER("a sanitizer's shadow counts as memory of the container too");
  uint8_t* device = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&device), kCopy));
  OK(cudaMemset(device, 1, kCopy));
  OK(cudaDeviceSynchronize());
  const auto source = Pattern(kCopy, 5);
  const MemoryCgroup container(800 * kMiB);
  if (!container.Enter()) GTEST_SKIP() << "no memory cgroup can be made here";
  const Tally tally("transfer");
  // Where the machine is busy a copy may find that no slot of the little memory comes free in time.
  for (int i = 0; i < 3 || (Engine() && tally.Of("h2d.promoted.large") == 0 && i < 50); ++i) {
    OK(CopyUp(device, source.data(), kCopy, a_));
    OK(cudaStreamSynchronize(a_));
  }
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device, source));
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", 1);
  // The simulated CUDA has a copy of its own while it copies, and the engine device memory for one.
  EXPECT_GT(container.Peak(), 0U);
  EXPECT_LT(container.Peak(), 2 * kCopy + 800 * kMiB / 8 + 32 * kMiB);
}

TEST_F(Container, S67_WhereLittleIsLeftCopiesAreLeftAlone) {
  NEEDS_NO_SANITIZER("a sanitizer's shadow counts as memory of the container too");
  const MemoryCgroup container(28 * kMiB);
  if (!container.Enter()) GTEST_SKIP() << "no memory cgroup can be made here";
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge, kSmall}) {
    OK(CopyUp(device_, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(HoldsOnly(device_, 0x11, bytes));
  }
  NEVER_DECIDED(tally, "h2d.promoted.large");
  DECIDED(tally, "h2d.declined.no_memory", 1);
}

}  // namespace
}  // namespace rules
