// Who has which bytes of a range: against a model that knows each unit of it, and the rules of streams one by one.

#include "allocator/address_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace slipstream::allocator {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kLeast = AddressSpace::kLeast;
constexpr Owner kStream = kFirstStream;
constexpr Owner kOther = kFirstStream + 1;

// A space of which the first `bytes` are nobody's memory, the rest a hole.
struct Space : AddressSpace {
  explicit Space(uint64_t range, uint64_t bytes = 0) {
    EXPECT_TRUE(Init(range) && Add(kStream) && Add(kOther));
    if (bytes != 0) Free(TakeAt(0, bytes), kNobodys, 0);
  }
};

// What is true of every space, whatever was done to it.
void ExpectWhole(const AddressSpace& space) {
  std::map<Owner, std::vector<BlockId>> by_owner;
  uint64_t at = 0;
  uint64_t live = 0;
  BlockId before = 0;
  for (BlockId id = space.First(); id != 0; id = space[id].after) {
    const AddressSpace::Block& block = space[id];
    ASSERT_EQ(block.offset, at);
    ASSERT_EQ(block.before, before);
    ASSERT_GT(block.bytes, 0U);
    ASSERT_EQ(block.bytes % FreeBins::kUnit, 0U);
    ASSERT_EQ(space.Containing(at), id);
    ASSERT_EQ(space.Containing(block.end() - 1), id);
    ASSERT_EQ(space.LiveAt(at), block.live ? id : 0);
    if (block.live) {
      live += block.bytes;
      ASSERT_GE(block.bytes, kLeast);
    } else {
      by_owner[block.owner].push_back(id);
      const bool joined = before == 0 || space[before].live || space[before].owner != block.owner;
      ASSERT_TRUE(joined) << "two blocks of one owner touch at " << at;
    }
    at = block.end();
    before = id;
  }
  ASSERT_EQ(at, space.size());
  ASSERT_EQ(space.Last(), before);
  ASSERT_EQ(space.live_bytes(), live);
  ASSERT_EQ(space.Containing(at), 0U);
  for (Owner owner = 0; owner < kOther + 3; ++owner) {
    std::vector<BlockId> binned;
    uint64_t bytes = 0;
    space.ForEachOf(owner, [&](BlockId id) {
      binned.push_back(id);
      bytes += space[id].bytes;
    });
    std::sort(binned.begin(), binned.end());
    std::vector<BlockId>& there = by_owner[owner];
    std::sort(there.begin(), there.end());
    ASSERT_EQ(binned, there);
    ASSERT_EQ(space.BytesOf(owner), bytes);
  }
}

TEST(AddressSpaceTest, AllOfItIsAHoleAtFirst) {
  const Space space(64 * kMiB);
  ExpectWhole(space);
  EXPECT_EQ(space.BytesOf(kHoles), 64 * kMiB);
  EXPECT_FALSE(space.Has(kNobodys, kLeast));
  EXPECT_FALSE(space.Has(kStream, kLeast));
}

TEST(AddressSpaceTest, ALoopOnOneStreamTakesTheSameBytesAgain) {
  Space space(64 * kMiB, 8 * kMiB);
  std::vector<uint64_t> first;
  for (int step = 0; step < 3; ++step) {
    std::vector<BlockId> taken;
    std::vector<uint64_t> offsets;
    for (uint64_t bytes : {kMiB, 3 * kMiB, 2 * kMiB + 512}) {
      const BlockId id = space.Has(kStream, bytes) ? space.Take(kStream, bytes) : space.Take(kNobodys, bytes);
      ASSERT_NE(id, 0U);
      taken.push_back(id);
      offsets.push_back(space[id].offset);
    }
    for (const BlockId id : taken) space.Free(id, kStream, static_cast<uint64_t>(step));
    ExpectWhole(space);
    if (step == 0) first = offsets;
    EXPECT_EQ(offsets, first);
  }
  EXPECT_EQ(space.BytesOf(kStream), 8 * kMiB) << "what nobody had beside it is one with it";
}

TEST(AddressSpaceTest, S38_WhatOneStreamFreedIsNotAnothers) {
  Space space(64 * kMiB, 4 * kMiB);
  const BlockId mine = space.Take(kNobodys, 4 * kMiB);
  space.Free(mine, kStream, 5);
  EXPECT_FALSE(space.Has(kOther, kMiB));
  EXPECT_FALSE(space.Has(kNobodys, kMiB));
  space.Pass(kStream, 4);
  EXPECT_FALSE(space.Has(kNobodys, kMiB)) << "its last free is number 5";
  space.Pass(kOther, 5);
  EXPECT_FALSE(space.Has(kNobodys, kMiB)) << "it is another stream's";
  space.Pass(kStream, 5);
  EXPECT_TRUE(space.Has(kNobodys, 4 * kMiB));
  EXPECT_FALSE(space.Has(kStream, kMiB));
  ExpectWhole(space);
}

TEST(AddressSpaceTest, S38_BlocksOfTwoStreamsStayTwo) {
  Space space(64 * kMiB, 2 * kMiB);
  const BlockId a = space.Take(kNobodys, kMiB);
  const BlockId b = space.Take(kNobodys, kMiB);
  space.Free(a, kStream, 1);
  space.Free(b, kOther, 1);
  ExpectWhole(space);
  EXPECT_FALSE(space.Has(kStream, kMiB + 512));
  EXPECT_FALSE(space.Has(kOther, kMiB + 512));
  space.Pass(kStream, 1);
  space.Pass(kOther, 1);
  EXPECT_TRUE(space.Has(kNobodys, 2 * kMiB));
}

TEST(AddressSpaceTest, AJoinedBlockWaitsForTheLastOfItsFrees) {
  Space space(64 * kMiB, 2 * kMiB);
  const BlockId a = space.Take(kNobodys, kMiB);
  const BlockId b = space.Take(kNobodys, kMiB);
  space.Free(b, kStream, 9);
  space.Free(a, kStream, 3);
  space.Pass(kStream, 8);
  EXPECT_FALSE(space.Has(kNobodys, kMiB));
  space.Pass(kStream, 9);
  EXPECT_TRUE(space.Has(kNobodys, 2 * kMiB));
}

TEST(AddressSpaceTest, NoMemoryIsTakenWhereThereIsAHole) {
  Space space(64 * kMiB, 2 * kMiB);
  EXPECT_FALSE(space.Has(kNobodys, 2 * kMiB + 512));
  const BlockId all = space.Take(kNobodys, 2 * kMiB);
  space.Free(all, kHoles, 0);
  ExpectWhole(space);
  EXPECT_EQ(space.BytesOf(kHoles), space.size());
}

TEST(AddressSpaceTest, TooLittleStaysWithItsBlock) {
  Space space(64 * kMiB, 2 * kMiB);
  const BlockId id = space.Take(kNobodys, 2 * kMiB - kLeast + 512);
  EXPECT_EQ(space[id].bytes, 2 * kMiB);
  EXPECT_EQ(space[id].asked, 0U);
  space.SetAsked(id, 5);
  EXPECT_EQ(space[id].asked, 5U);
  ExpectWhole(space);
}

TEST(AddressSpaceTest, ABlockThatFitsExactlyComesBeforeLargerOnes) {
  Space space(64 * kMiB, 16 * kMiB);
  const BlockId exact = space.Take(kNobodys, kMiB + 512);
  const BlockId wall = space.Take(kNobodys, kMiB);
  const BlockId larger = space.Take(kNobodys, kMiB + 2048);
  const BlockId end = space.Take(kNobodys, kMiB);
  const uint64_t offset = space[exact].offset;
  space.Free(exact, kStream, 1);
  space.Free(larger, kStream, 2);
  const BlockId again = space.Take(kStream, kMiB + 512);
  EXPECT_EQ(space[again].offset, offset);
  EXPECT_NE(wall + end, 0U);
}

TEST(AddressSpaceTest, ExactBytesAreTakenOutOfTheMiddle) {
  Space space(64 * kMiB, 8 * kMiB);
  EXPECT_EQ(space.TakeAt(6 * kMiB, 4 * kMiB), 0U) << "the second half is a hole";
  const BlockId id = space.TakeAt(2 * kMiB, 4 * kMiB);
  ASSERT_NE(id, 0U);
  EXPECT_EQ(space[id].offset, 2 * kMiB);
  EXPECT_EQ(space[id].bytes, 4 * kMiB);
  EXPECT_EQ(space.TakeAt(4 * kMiB, 4 * kKiB), 0U) << "it is live";
  ExpectWhole(space);
  space.Free(id, kStream, 1);
  ExpectWhole(space);
  EXPECT_EQ(space.BytesOf(kStream), 8 * kMiB);
}

TEST(AddressSpaceTest, AddressesInsideABlockFindIt) {
  Space space(uint64_t{1} << 40, uint64_t{64} << 30);
  const BlockId small = space.Take(kNobodys, kLeast);
  const BlockId large = space.Take(kNobodys, uint64_t{32} << 30);
  EXPECT_EQ(space.Containing(space[large].offset + (uint64_t{31} << 30)), large);
  EXPECT_EQ(space.Containing(space[small].offset + 1), small);
  EXPECT_EQ(space.LiveAt(space[large].offset + kLeast), 0U);
  EXPECT_EQ(space.Containing((uint64_t{1} << 40) - 1), space.Last());
  EXPECT_EQ(space.Containing(uint64_t{1} << 40), 0U);
  EXPECT_EQ(space.Containing(UINT64_MAX), 0U);
  EXPECT_EQ(space.LiveAt(UINT64_MAX), 0U);
}

// Anything, in any order: the space stays whole, no byte has two users, and none is used before its last free passed.
TEST(AddressSpaceTest, S38_AnythingInAnyOrder) {
  constexpr uint64_t kRange = 48 * kMiB;
  constexpr uint64_t kStep = 32 * kKiB;  // the model's unit, of which all sizes here but a few are multiples
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Space space(kRange, 24 * kMiB);
    struct Unit {
      bool live = false;
      Owner owner = kHoles;
      uint64_t freed_at = 0;
    };
    std::vector<Unit> units(kRange / kStep);
    for (size_t i = 0; i < 24 * kMiB / kStep; ++i) units[i].owner = kNobodys;
    std::vector<BlockId> live;
    std::map<Owner, uint64_t> clock;
    for (int i = 0; i < 3000; ++i) {
      const auto owner = static_cast<Owner>(kStream + random() % 2);
      switch (random() % 8) {
        case 0: {  // a stream's work has run up to a number
          const uint64_t up_to = clock[owner] - std::min<uint64_t>(clock[owner], random() % 4);
          space.Pass(owner, up_to);
          // Nobody's memory that was one with it is not told apart: what the space says now must be allowed.
          for (BlockId id = space.First(); id != 0; id = space[id].after) {
            if (space[id].live || space[id].owner != kNobodys) continue;
            for (uint64_t at = space[id].offset / kStep; at < space[id].end() / kStep; ++at) {
              Unit& unit = units[at];
              ASSERT_FALSE(unit.live);
              ASSERT_TRUE(unit.owner == kNobodys || (unit.owner == owner && unit.freed_at <= up_to));
              unit = {.live = false, .owner = kNobodys, .freed_at = 0};
            }
          }
          break;
        }
        case 1: {  // exact bytes
          const uint64_t offset = random() % units.size() * kStep;
          const uint64_t bytes = (1 + random() % 64) * kStep;
          const BlockId id = space.TakeAt(offset, bytes);
          if (id == 0) break;
          const Owner whose = space[id].owner;
          for (uint64_t at = offset / kStep; at < (offset + bytes) / kStep; ++at) {
            ASSERT_FALSE(units[at].live);
            ASSERT_TRUE(units[at].owner == whose || units[at].owner == kNobodys);
            ASSERT_EQ(units[at].owner == kHoles, whose == kHoles);
            units[at].live = true;
          }
          live.push_back(id);
          break;
        }
        case 2:
        case 3:
        case 4: {
          if (live.empty()) break;
          const size_t which = random() % live.size();
          const BlockId id = live[which];
          live.erase(live.begin() + static_cast<ptrdiff_t>(which));
          const uint64_t freed_at = ++clock[owner];
          const Owner to = random() % 16 == 0 ? kHoles : owner;
          for (uint64_t at = space[id].offset / kStep; at < space[id].end() / kStep; ++at) {
            units[at] = {.live = false, .owner = to, .freed_at = freed_at};
          }
          space.Free(id, to, to == kHoles ? 0 : freed_at);
          break;
        }
        default: {
          const Owner from = random() % 2 == 0 ? owner : kNobodys;
          const uint64_t bytes = (1 + random() % (random() % 4 == 0 ? 128 : 8)) * kStep - (random() % 2) * 512 + 512;
          const bool fits = space.Has(from, (bytes + kStep - 1) / kStep * kStep);
          const BlockId id = space.Take(from, (bytes + kStep - 1) / kStep * kStep);
          ASSERT_EQ(id != 0, fits);
          if (id == 0) break;
          for (uint64_t at = space[id].offset / kStep; at < space[id].end() / kStep; ++at) {
            ASSERT_FALSE(units[at].live);
            ASSERT_TRUE(units[at].owner == kNobodys || units[at].owner == from) << units[at].owner << " " << from;
            units[at].live = true;
          }
          live.push_back(id);
          break;
        }
      }
      if (i % 10 == 0) {
        ASSERT_NO_FATAL_FAILURE(ExpectWhole(space));
      }
    }
  }
}

TEST(BitTreeTest, TheLastBitUpToAPlace) {
  for (const size_t bits : {size_t{1}, size_t{64}, size_t{65}, size_t{5000}, size_t{300'000}, size_t{40'000'000}}) {
    std::mt19937_64 random(bits);
    BitTree tree;
    ASSERT_TRUE(tree.Init(bits));
    std::map<size_t, bool> set;
    EXPECT_EQ(tree.LastUpTo(bits - 1), SIZE_MAX);
    for (int i = 0; i < 4000; ++i) {
      const size_t bit = random() % bits;
      if (random() % 3 != 0) {
        tree.Set(bit);
        set[bit] = true;
      } else {
        const size_t gone = set.empty() ? bit : set.begin()->first;
        tree.Clear(gone);
        set.erase(gone);
      }
      const size_t up_to = random() % bits;
      auto next = set.upper_bound(up_to);
      ASSERT_EQ(tree.LastUpTo(up_to), next == set.begin() ? SIZE_MAX : std::prev(next)->first) << bits;
    }
  }
}

}  // namespace
}  // namespace slipstream::allocator
