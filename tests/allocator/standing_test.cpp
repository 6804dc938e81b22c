// What is said of the process's allocator, by what the policy has on.
#include <gtest/gtest.h>

#include "allocator/allocator.h"

namespace slipstream::allocator {
namespace {

Standing Of(policy::AllocatorMode mode, policy::PinnedMode pinned) {
  policy::Allocator policy;
  policy.mode = mode;
  policy.pinned = pinned;
  return StandingOf(policy);
}

TEST(StandingTest, EachPoolIsServedByItself) {
  const Standing neither = Of(policy::AllocatorMode::kOff, policy::PinnedMode::kOff);
  EXPECT_FALSE(neither.serves || neither.device || neither.pinned);
  EXPECT_EQ(neither.why, "allocator.mode = \"off\", allocator.pinned = \"off\"");

  const Standing device = Of(policy::AllocatorMode::kSegments, policy::PinnedMode::kOff);
  EXPECT_TRUE(device.serves && device.device && !device.pinned);
  EXPECT_EQ(device.why, "whole driver allocations, kept when they are freed");

  const Standing pinned = Of(policy::AllocatorMode::kOff, policy::PinnedMode::kPool);
  EXPECT_TRUE(pinned.serves && !pinned.device && pinned.pinned);
  EXPECT_EQ(pinned.why, "pinned memory, kept when it is freed");

  const Standing both = Of(policy::AllocatorMode::kSegments, policy::PinnedMode::kPool);
  EXPECT_TRUE(both.serves && both.device && both.pinned);
  EXPECT_EQ(both.why, "whole driver allocations, kept when they are freed; pinned memory too");

  const Standing ordered = Of(policy::AllocatorMode::kStreamOrdered, policy::PinnedMode::kOff);
  EXPECT_TRUE(ordered.serves && ordered.stream_ordered && !ordered.device);
  EXPECT_EQ(ordered.why, "cudaMallocAsync, from heaps of its own (policy explain allocator.mode)");
}

}  // namespace
}  // namespace slipstream::allocator
