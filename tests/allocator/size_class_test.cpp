// Size classes: how much larger than the request a block may be.

#include "allocator/size_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace slipstream::allocator {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(SizeClassTest, GrowsWithTheSizeAndFitsTheTable) {
  size_t before = 0;
  for (size_t bytes = 1; bytes != 0 && bytes < (size_t{1} << 62); bytes += std::max<size_t>(bytes / 50, 1)) {
    const size_t now = SizeClassOf(bytes);
    EXPECT_GE(now, before) << bytes;
    EXPECT_LT(now, kSizeClasses);
    before = now;
  }
  EXPECT_LT(SizeClassOf(SIZE_MAX), kSizeClasses);
}

TEST(SizeClassTest, SizesOfAClassDifferByAnEighthAtMost) {
  for (size_t bytes = 8; bytes < (size_t{1} << 40); bytes += std::max<size_t>(bytes / 37, 1)) {
    const size_t far = bytes + bytes / 8 + 1;
    EXPECT_NE(SizeClassOf(bytes), SizeClassOf(far)) << bytes;
  }
}

TEST(SizeClassTest, TheClassesOfARequestAreFew) {
  for (size_t bytes = 1; bytes < (size_t{1} << 40); bytes += std::max<size_t>(bytes / 37, 1)) {
    EXPECT_LE(SizeClassOf(LargestFor(bytes)) - SizeClassOf(bytes), 2U) << bytes;
  }
}

TEST(SizeClassTest, WasteIsBounded) {
  EXPECT_EQ(LargestFor(1), 1U);
  EXPECT_EQ(LargestFor(2 * kMiB - 1), 2 * kMiB - 1);
  EXPECT_EQ(LargestFor(16 * kMiB), 18 * kMiB);
  EXPECT_EQ(LargestFor(size_t{64} << 30), (size_t{64} << 30) + 32 * kMiB);
}

}  // namespace
}  // namespace slipstream::allocator
