// Where blocks lie and what is in them.
#include <iterator>
#include <map>

#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

constexpr size_t kLayoutSizes[] = {1,
                                   2,
                                   3,
                                   255,
                                   256,
                                   257,
                                   511,
                                   512,
                                   513,
                                   768,
                                   4095,
                                   4 * kKiB,
                                   64 * kKiB,
                                   kMiB - 1,
                                   kMiB,
                                   kMiB + 1,
                                   2 * kMiB,
                                   2 * kMiB + 512,
                                   3 * kMiB + 5,
                                   20 * kMiB,
                                   33 * kMiB + 7};

template <typename Allocator>
class Layout : public Conformance<Allocator> {
 protected:
  // 1 B to 2 MiB, every power as likely as any other.
  size_t AnySize() {
    return (size_t{1} << this->random_() % 21) + this->random_() % (size_t{1} << this->random_() % 21);
  }
};
TYPED_TEST_SUITE(Layout, Allocators, AllocatorNames);

// Twice: what a pool hands out again is aligned as well.
TYPED_TEST(Layout, BlocksAreAligned) {
  for (int round = 0; round < 2; ++round) {
    std::vector<uint8_t*> blocks;
    for (const size_t bytes : kLayoutSizes) {
      uint8_t* const block = this->Take(bytes);
      ASSERT_NE(block, nullptr);
      blocks.push_back(block);
      const size_t alignment = bytes >= TypeParam::kAlignment ? TypeParam::kAlignment : kLeastAlignment;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0U) << bytes << " bytes, round " << round;
    }
    for (uint8_t* const block : blocks) this->Give(block);
  }
}

TYPED_TEST(Layout, EveryByteOfABlockCanBeUsed) {
  for (const size_t bytes : kLayoutSizes) {
    uint8_t* const block = this->Take(bytes);
    ASSERT_NE(block, nullptr);
    const uint32_t salt = NewSalt();
    EXPECT_TRUE(Fill(block, bytes, salt, this->a_));
    EXPECT_TRUE(Holds(block, bytes, salt, this->a_)) << bytes << " bytes";
    this->Give(block);
  }
}

TYPED_TEST(Layout, SmallSizesOneByOne) {
  std::vector<std::pair<uint8_t*, uint32_t>> blocks;
  for (size_t bytes = 1; bytes <= 600; ++bytes) {
    blocks.emplace_back(this->Take(bytes), NewSalt());
    ASSERT_NE(blocks.back().first, nullptr);
    EXPECT_TRUE(Fill(blocks.back().first, bytes, blocks.back().second, this->a_));
  }
  for (size_t bytes = 1; bytes <= 600; ++bytes) {
    const auto& [block, salt] = blocks[bytes - 1];
    EXPECT_TRUE(Holds(block, bytes, salt, this->a_)) << bytes << " bytes";
  }
}

TYPED_TEST(Layout, LiveBlocksDoNotOverlap) {
  std::map<uintptr_t, size_t> live;
  for (int step = 0; step < 1500; ++step) {
    if (!live.empty() && this->random_() % 5 < 2) {
      const auto chosen = std::next(live.begin(), static_cast<ptrdiff_t>(this->random_() % live.size()));
      auto* const block = reinterpret_cast<void*>(chosen->first);
      live.erase(chosen);
      this->Give(block);
      continue;
    }
    const size_t bytes = this->AnySize();
    const auto begin = reinterpret_cast<uintptr_t>(this->Take(bytes));
    ASSERT_NE(begin, 0U);
    const auto behind = live.lower_bound(begin);
    if (behind != live.end()) {
      EXPECT_LE(begin + bytes, behind->first);
    }
    if (behind != live.begin()) {
      EXPECT_LE(std::prev(behind)->first + std::prev(behind)->second, begin);
    }
    live[begin] = bytes;
    if (live.size() > 400) break;
  }
}

// Written by one stream or another, read much later, while blocks come and go around it.
TYPED_TEST(Layout, ContentsLastAsLongAsTheBlock) {
  struct Live {
    uint8_t* block;
    size_t bytes;
    uint32_t salt;
  };
  std::vector<Live> live;
  const cudaStream_t streams[] = {this->a_, this->b_, this->blocking_};
  for (int step = 0; step < 1200; ++step) {
    if (live.size() > 120 || (!live.empty() && this->random_() % 5 < 2)) {
      std::swap(live[this->random_() % live.size()], live.back());
      const Live old = live.back();
      live.pop_back();
      OK(cudaDeviceSynchronize());
      ASSERT_TRUE(Holds(old.block, old.bytes, old.salt, this->a_)) << "step " << step;
      this->Give(old.block);
      continue;
    }
    const size_t bytes = this->AnySize();
    live.push_back({this->Take(bytes), bytes, NewSalt()});
    ASSERT_NE(live.back().block, nullptr);
    ASSERT_TRUE(Fill(live.back().block, bytes, live.back().salt, streams[this->random_() % 3]));
  }
  OK(cudaDeviceSynchronize());
  for (const Live& block : live) EXPECT_TRUE(Holds(block.block, block.bytes, block.salt, this->a_));
}

}  // namespace
}  // namespace conformance
