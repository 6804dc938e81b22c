// The free lists of a device: what is found, in which order, and what the figures say.

#include "allocator/device_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

namespace slipstream::allocator {
namespace {

class DevicePoolTest : public ::testing::Test {
 protected:
  static constexpr size_t kMiB = size_t{1} << 20;

  Block* Idle(size_t bytes, uint64_t since = 0, bool passed = false) {
    Block& block = blocks_.emplace_back();
    block.bytes = bytes;
    block.idle_since_ns = since;
    block.passed = passed;
    pool_.Put(&block);
    return &block;
  }

  cuda::Driver driver_;
  DevicePool pool_{driver_, 0, nullptr, size_t{1} << 30};
  std::deque<Block> blocks_;
};

TEST_F(DevicePoolTest, FindsWhatIsLargeEnoughAndNotTooLarge) {
  Block* const small = Idle(8 * kMiB);
  Block* const large = Idle(20 * kMiB);
  EXPECT_EQ(pool_.Take(9 * kMiB, 10 * kMiB), nullptr);
  EXPECT_EQ(pool_.Take(8 * kMiB + 1, 19 * kMiB), nullptr);
  EXPECT_EQ(pool_.Take(7 * kMiB, 8 * kMiB), small);
  EXPECT_EQ(pool_.Take(18 * kMiB, 20 * kMiB), large);
  EXPECT_EQ(pool_.Take(1, SIZE_MAX), nullptr);
}

TEST_F(DevicePoolTest, TheOldestComesFirst) {
  Block* const first = Idle(kMiB);
  Block* const second = Idle(kMiB);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), first);
  pool_.PutBack(first);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), first);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), second);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), nullptr);
}

// So that what is not needed is not touched, and decays.
TEST_F(DevicePoolTest, OfThoseKnownToHavePassedTheNewest) {
  Block* const oldest = Idle(kMiB, 0, true);
  Block* const passed = Idle(kMiB, 0, true);
  Block* const pending = Idle(kMiB, 0, false);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), passed);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), oldest);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), pending);
}

TEST_F(DevicePoolTest, TakesWhatIsOlderThanATime) {
  Idle(kMiB, 200);
  Block* const old = Idle(2 * kMiB, 100);
  EXPECT_EQ(pool_.TakeOlderThan(100, DevicePool::Which::kAll), nullptr);
  EXPECT_EQ(pool_.TakeOlderThan(101, DevicePool::Which::kAll), old);
  EXPECT_EQ(pool_.TakeOlderThan(101, DevicePool::Which::kAll), nullptr);
  EXPECT_EQ(pool_.idle_bytes(), kMiB);
}

TEST_F(DevicePoolTest, TheLargestIdleBlock) {
  EXPECT_EQ(pool_.LargestIdle(), 0U);
  Idle(9 * kMiB, 0, true);
  Idle(9 * kMiB + 512);  // of the same list
  Idle(kMiB);
  EXPECT_EQ(pool_.LargestIdle(), 9 * kMiB + 512);
  std::thread([this] { Idle(5 * kMiB); }).join();  // of another shard, as it may be
  std::thread([this] { Idle(40 * kMiB); }).join();
  EXPECT_EQ(pool_.LargestIdle(), 40 * kMiB);
  ASSERT_NE(pool_.Take(40 * kMiB, 40 * kMiB), nullptr);
  EXPECT_EQ(pool_.LargestIdle(), 9 * kMiB + 512);
  ASSERT_NE(pool_.Take(9 * kMiB + 512, 9 * kMiB + 512), nullptr);
  EXPECT_EQ(pool_.LargestIdle(), 9 * kMiB);
}

TEST_F(DevicePoolTest, FiguresFollowTheBlocks) {
  Idle(kMiB);
  Idle(2 * kMiB, 0, true);
  PoolFigures figures = pool_.Figures();
  EXPECT_EQ(figures.idle_bytes, 3 * kMiB);
  EXPECT_EQ(figures.parked_bytes, kMiB);
  pool_.Refresh([](Block* block) { return block->passed = true; });
  EXPECT_EQ(pool_.Figures().parked_bytes, 0U);
  EXPECT_NE(pool_.Take(2 * kMiB, 2 * kMiB), nullptr);
  figures = pool_.Figures();
  EXPECT_EQ(figures.idle_bytes, kMiB);
  EXPECT_EQ(figures.peak_idle_bytes, 3 * kMiB);
  pool_.Clear();
  EXPECT_EQ(pool_.idle_bytes(), 0U);
  EXPECT_EQ(pool_.Take(1, SIZE_MAX), nullptr);
}

// A block counts as what it takes of the device, whatever becomes of it.
TEST_F(DevicePoolTest, FiguresAreInTheDriversPieces) {
  Idle(3 * kMiB);
  Idle(3 * kMiB + 512);
  EXPECT_EQ(pool_.idle_bytes(), 8 * kMiB);
  EXPECT_EQ(pool_.Figures().parked_bytes, 8 * kMiB);
  EXPECT_NE(pool_.Take(3 * kMiB, 3 * kMiB), nullptr);
  EXPECT_EQ(pool_.Figures().parked_bytes, 4 * kMiB);
  pool_.Refresh([](Block* block) { return block->passed = true; });
  EXPECT_EQ(pool_.Figures().parked_bytes, 0U);
  EXPECT_NE(pool_.Take(3 * kMiB, 4 * kMiB), nullptr);
  EXPECT_EQ(pool_.idle_bytes(), 0U);
  EXPECT_EQ(pool_.Figures().parked_bytes, 0U);
}

// A thread looks in its own shard first, and finds what another one parked all the same.
TEST_F(DevicePoolTest, AThreadsOwnBlocksComeFirst) {
  Block* theirs = nullptr;
  std::thread([&] { theirs = Idle(kMiB); }).join();
  Block* const own = Idle(kMiB);
  ASSERT_NE(own->shard, theirs->shard);
  EXPECT_EQ(pool_.Take(0, kMiB, kMiB), own);
  EXPECT_EQ(pool_.Take(0, kMiB, kMiB), nullptr);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), theirs);
  pool_.PutBack(theirs);
  EXPECT_EQ(pool_.Take(0, kMiB, kMiB), nullptr) << "it went back to the shard that it came from";
  EXPECT_EQ(pool_.TakeOlderThan(1, DevicePool::Which::kAll), theirs);
  EXPECT_EQ(pool_.idle_bytes(), 0U);
}

TEST_F(DevicePoolTest, WhatIsSeenToHavePassedIsFoundFirst) {
  Block* const oldest = Idle(kMiB);
  Block* const second = Idle(kMiB);
  Block* const third = Idle(kMiB);
  pool_.Refresh([second](Block* block) { return block->passed = block == second; });
  EXPECT_EQ(pool_.Take(kMiB, kMiB), second);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), oldest);
  EXPECT_EQ(pool_.Take(kMiB, kMiB), third);
}

// Threads that take and put back lose no block and find none twice.
TEST_F(DevicePoolTest, ManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kBlocks = 16;
  for (int i = 0; i < kBlocks; ++i) Idle(kMiB + static_cast<size_t>(i % 4) * 4096);
  for (Block& block : blocks_) block.state.store(BlockState::kIdle);
  std::vector<std::thread> threads;
  std::atomic<int> taken_twice{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Block* const block = pool_.Take(kMiB, 2 * kMiB);
        if (block == nullptr) continue;
        if (block->state.exchange(BlockState::kLive) == BlockState::kLive) taken_twice.fetch_add(1);
        block->state.store(BlockState::kIdle);
        pool_.Put(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken_twice.load(), 0);
  int found = 0;
  while (pool_.Take(1, SIZE_MAX) != nullptr) ++found;
  EXPECT_EQ(found, kBlocks);
  EXPECT_EQ(pool_.idle_bytes(), 0U);
}

}  // namespace
}  // namespace slipstream::allocator
