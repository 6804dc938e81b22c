// What is said of the process's allocator, by what the policy has on.
#include <gtest/gtest.h>

#include "allocator/allocator.h"

namespace slipstream::allocator {
namespace {

EngineStatus Of(policy::AllocatorMode mode) {
  policy::Allocator policy;
  policy.mode = mode;
  return StatusOf(policy);
}

TEST(StandingTest, EachPoolIsServedByItself) {
  const EngineStatus neither = Of(policy::AllocatorMode::kOff);
  EXPECT_FALSE(neither.serves || neither.device || neither.stream_ordered);
  EXPECT_EQ(neither.why, "allocator.mode = \"off\"");

  const EngineStatus device = Of(policy::AllocatorMode::kSegments);
  EXPECT_TRUE(device.serves && device.device && !device.stream_ordered);
  EXPECT_EQ(device.why, "whole driver allocations, kept when they are freed");

  const EngineStatus ordered = Of(policy::AllocatorMode::kStreamOrdered);
  EXPECT_TRUE(ordered.serves && ordered.stream_ordered && !ordered.device);
  EXPECT_EQ(ordered.why, "cudaMallocAsync, from heaps of its own (policy explain allocator.mode)");
}

}  // namespace
}  // namespace slipstream::allocator
