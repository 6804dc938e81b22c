// Sizes, their bins, and the next bin that has a block.

#include "allocator/free_bins.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace slipstream::allocator {
namespace {

constexpr size_t kUnit = FreeBins::kUnit;

TEST(FreeBinsTest, BinsAreInTheOrderOfSizes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t a = (random() >> (20 + random() % 35)) / kUnit * kUnit + kUnit;
    const uint64_t b = a + kUnit * (random() % 64);
    ASSERT_LE(FreeBins::Of(a), FreeBins::Of(b)) << a << " " << b;
    ASSERT_LT(FreeBins::Of(b), FreeBins::kBins) << b;
  }
  EXPECT_LT(FreeBins::Of(uint64_t{1} << 44), FreeBins::kBins);
}

TEST(FreeBinsTest, ABinHoldsSizesThatDifferByA32nd) {
  uint64_t first = kUnit;
  for (uint64_t bytes = kUnit; bytes < (uint64_t{64} << 20); bytes += kUnit) {
    if (FreeBins::Of(bytes) != FreeBins::Of(first)) {
      ASSERT_EQ(FreeBins::Of(bytes), FreeBins::Of(first) + 1);
      first = bytes;
    }
    ASSERT_LE(bytes - first, first / 32) << bytes;
  }
}

TEST(FreeBinsTest, TheNextBinIsTheNext) {
  std::mt19937 random(2);
  FreeBins bins;
  std::set<size_t> filled;
  EXPECT_EQ(bins.Next(0), FreeBins::kNone);
  for (int i = 0; i < 20'000; ++i) {
    const size_t bin = random() % 3 == 0 ? random() % FreeBins::kBins : random() % 4 * 331 % FreeBins::kBins;
    if (random() % 2 == 0) {
      bins.SetHead(bin, 7);
      filled.insert(bin);
    } else {
      bins.SetHead(bin, 0);
      filled.erase(bin);
    }
    const size_t from = random() % (FreeBins::kBins + 2);
    const auto next = filled.lower_bound(from);
    ASSERT_EQ(bins.Next(from), next == filled.end() ? FreeBins::kNone : *next) << from;
  }
}

}  // namespace
}  // namespace slipstream::allocator
