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

TEST(StatusTest, EachModeSaysWhatServes) {
  EXPECT_FALSE(Of(policy::AllocatorMode::kOff).serves);
  EXPECT_EQ(Of(policy::AllocatorMode::kOff).why, "allocator.mode = \"off\"");

  EXPECT_TRUE(Of(policy::AllocatorMode::kSegments).serves);
  EXPECT_EQ(Of(policy::AllocatorMode::kSegments).why, "whole driver allocations, kept when they are freed");

  EXPECT_TRUE(Of(policy::AllocatorMode::kExpandable).serves);
  EXPECT_EQ(Of(policy::AllocatorMode::kExpandable).why,
            "whole driver allocations, kept when they are freed, beside PyTorch's expandable segments");
}

}  // namespace
}  // namespace slipstream::allocator
