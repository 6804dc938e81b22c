// What CUDA answers about memory.
#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

// The driver gives memory out in pieces of 2 MiB.
constexpr size_t kSlack = 4 * kMiB;
// A block may be larger than what was asked for by so much: what is not asked for is lost to the program.
constexpr size_t MostFor(size_t bytes) { return bytes + bytes / 8 + kSlack; }

template <typename Allocator>
class Queries : public Conformance<Allocator> {};
TYPED_TEST_SUITE(Queries, Allocators, AllocatorNames);

TYPED_TEST(Queries, MemoryGoesAndComesBack) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "what a memory pool holds back is its own affair";
  for (const size_t bytes : {size_t{8} * kMiB, size_t{24} * kMiB, size_t{64} * kMiB}) {
    const size_t before = this->FreeMemory();
    uint8_t* const block = this->Take(bytes);
    ASSERT_NE(block, nullptr);
    const size_t during = this->FreeMemory();
    EXPECT_LE(during, before);
    EXPECT_GE(before - during + kSlack, bytes);
    EXPECT_LE(before - during, MostFor(bytes));
    this->Give(block);
    EXPECT_GE(this->FreeMemory() + kSlack, before) << bytes << " bytes did not come back";
  }
}

TYPED_TEST(Queries, MemoryOfManyBlocksComesBack) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "what a memory pool holds back is its own affair";
  const size_t before = this->FreeMemory();
  for (int round = 0; round < 3; ++round) {
    std::vector<uint8_t*> blocks;
    size_t bytes = 0;
    for (int i = 0; i < 24; ++i) {
      const size_t size = kMiB + this->random_() % (8 * kMiB);
      blocks.push_back(this->Take(size));
      ASSERT_NE(blocks.back(), nullptr);
      bytes += size;
    }
    EXPECT_LE(this->FreeMemory() + bytes, before + kSlack);
    for (uint8_t* const block : blocks) this->Give(block);
    EXPECT_GE(this->FreeMemory() + kSlack, before) << "round " << round;
  }
}

// A small block is not cut from a large one that was freed, or memory would be gone that nobody uses.
TYPED_TEST(Queries, ASmallBlockTakesLittle) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "what a memory pool holds back is its own affair";
  this->Give(this->Take(48 * kMiB));
  const size_t before = this->FreeMemory();
  for (int i = 0; i < 40; ++i) ASSERT_NE(this->Take(kKiB), nullptr);
  EXPECT_LE(before - this->FreeMemory(), MostFor(40 * kKiB));
}

TYPED_TEST(Queries, FreeMemoryIsNeverMoreThanThereIs) {
  for (int i = 0; i < 64; ++i) {
    (void)this->FreeMemory();
    uint8_t* const block = this->Take(1 + this->random_() % (4 * kMiB));
    (void)this->FreeMemory();
    if (i % 2 == 0) this->Give(block);
  }
}

TYPED_TEST(Queries, PointersAreDeviceMemory) {
  for (int round = 0; round < 2; ++round) {
    for (const size_t bytes : {size_t{1}, 4 * kKiB, 5 * kMiB}) {
      uint8_t* const block = this->Take(bytes);
      ASSERT_NE(block, nullptr);
      for (uint8_t* const pointer : {block, block + bytes / 2, block + bytes - 1}) {
        cudaPointerAttributes attributes = {};
        OK(cudaPointerGetAttributes(&attributes, pointer));
        EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
        EXPECT_EQ(attributes.device, 0);
        EXPECT_EQ(attributes.devicePointer, pointer);
      }
      this->Give(block);
    }
  }
}

TYPED_TEST(Queries, AddressRangesCoverTheBlockAndLittleMore) {
  for (int round = 0; round < 2; ++round) {
    for (const size_t bytes : {size_t{1}, size_t{513}, 4 * kKiB, 5 * kMiB, 70 * kMiB}) {
      uint8_t* const block = this->Take(bytes);
      ASSERT_NE(block, nullptr);
      for (uint8_t* const pointer : {block, block + bytes / 2, block + bytes - 1}) {
        uintptr_t base = 0;
        size_t size = 0;
        ASSERT_EQ(AddressRange(pointer, &base, &size), CUDA_SUCCESS);
        EXPECT_EQ(base, reinterpret_cast<uintptr_t>(block));
        EXPECT_GE(size, bytes);
        EXPECT_LE(size, bytes + bytes / 8 + 64 * kKiB);
      }
      this->Give(block);
    }
  }
}

}  // namespace
}  // namespace conformance
