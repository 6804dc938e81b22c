// Blocks by address: frees, double frees, and addresses that have become somebody else's.

#include "allocator/block_map.h"

#include <gtest/gtest.h>

#include <memory>

namespace slipstream::allocator {
namespace {

Block* Insert(BlockMap& map, CUdeviceptr address) {
  auto block = std::make_unique<Block>();
  block->address = address;
  Block* const made = block.get();
  map.Insert(std::move(block));
  return made;
}

TEST(BlockMapTest, ABlockIsFreedOnce) {
  BlockMap map;
  Block* const block = Insert(map, 0x200000);
  bool was_idle = true;
  EXPECT_EQ(map.Free(0x200000, &was_idle), block);
  EXPECT_FALSE(was_idle);
  EXPECT_EQ(map.Free(0x200000, &was_idle), nullptr);
  EXPECT_TRUE(was_idle);
  EXPECT_EQ(map.Free(0x200001, &was_idle), nullptr);
  EXPECT_FALSE(was_idle);
}

TEST(BlockMapTest, ADeletedBlockIsUnknown) {
  BlockMap map;
  map.Delete(Insert(map, 0x200000));
  bool was_idle = true;
  EXPECT_EQ(map.Free(0x200000, &was_idle), nullptr);
  EXPECT_FALSE(was_idle);
}

// The block in a free list stays valid until whoever takes it deletes it, which leaves the new one alone.
TEST(BlockMapTest, AnIdleBlockWhoseAddressHasANewOne) {
  BlockMap map;
  Block* const old = Insert(map, 0x200000);
  bool was_idle = false;
  ASSERT_EQ(map.Free(0x200000, &was_idle), old);
  Block* const fresh = Insert(map, 0x200000);
  EXPECT_EQ(old->address, 0x200000U);
  map.Delete(old);
  EXPECT_EQ(map.Free(0x200000, &was_idle), fresh);
}

TEST(BlockMapTest, SharedBlocksAreMarked) {
  BlockMap map;
  Block* const block = Insert(map, 0x200000);
  map.MarkShared(0x400000);
  EXPECT_FALSE(block->shared.load());
  map.MarkShared(0x200000);
  EXPECT_TRUE(block->shared.load());
}

TEST(BlockMapTest, ForgetsTheBlocksOfOnePool) {
  BlockMap map;
  auto* const gone = reinterpret_cast<DevicePool*>(0x10);
  Insert(map, 0x200000)->pool = gone;
  Block* const kept = Insert(map, 0x400000);
  map.RemoveAllOf(gone);
  bool was_idle = false;
  EXPECT_EQ(map.Free(0x200000, &was_idle), nullptr);
  EXPECT_EQ(map.Free(0x400000, &was_idle), kept);
}

}  // namespace
}  // namespace slipstream::allocator
