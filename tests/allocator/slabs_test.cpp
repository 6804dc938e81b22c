// Slots of slabs: whose they are, when they come again, and when a slab goes back.

#include "allocator/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace slipstream::allocator {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr Owner kStream = kFirstStream;
constexpr Owner kOther = kFirstStream + 1;
constexpr uint64_t kNowhere = Slabs::kNowhere;

struct Small {
  AddressSpace space;
  Slabs slabs;

  explicit Small(uint64_t bytes = 64 * kMiB) {
    EXPECT_TRUE(space.Init(bytes));
    for (const Owner owner : {kStream, kOther}) EXPECT_TRUE(space.Add(owner));
    EXPECT_TRUE(slabs.Init(space));
    for (const Owner owner : {kStream, kOther}) EXPECT_TRUE(slabs.Add(owner));
    space.Free(space.TakeAt(0, bytes), kNobodys, 0);
  }
  // As the allocator does: another slab where there is no slot.
  uint64_t Take(Owner owner, uint64_t bytes) {
    const uint64_t offset = slabs.Take(owner, bytes);
    if (offset != kNowhere) return offset;
    BlockId block = space.Take(owner, Slabs::kSlabBytes);
    if (block == 0) block = space.Take(kNobodys, Slabs::kSlabBytes);
    if (block == 0 || !slabs.AddSlab(owner, bytes, block, space[block].freed_at)) return kNowhere;
    return slabs.Take(owner, bytes);
  }
};

TEST(SlabsTest, AClassWastesAThirdAtMost) {
  for (uint64_t bytes = 1; bytes <= Slabs::kMost; ++bytes) {
    const uint64_t slot = Slabs::SlotFor(bytes);
    ASSERT_GE(slot, bytes);
    const uint64_t aligned = (bytes + 511) / 512 * 512;
    ASSERT_LE((slot - aligned) * 3, slot) << bytes;
    ASSERT_EQ(slot % 512, 0U) << "S31";
  }
}

TEST(SlabsTest, SlotsDoNotOverlap) {
  Small small;
  std::map<uint64_t, uint64_t> taken;
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t bytes = 1 + random() % Slabs::kMost;
    const uint64_t offset = small.Take(kStream, bytes);
    ASSERT_NE(offset, kNowhere);
    ASSERT_EQ(offset % 512, 0U) << "S31";
    const auto next = taken.lower_bound(offset);
    ASSERT_TRUE(next == taken.end() || next->first >= offset + bytes);
    ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= offset);
    taken[offset] = bytes;
    ASSERT_EQ(small.slabs.AskedAt(offset), (bytes + 511) / 512 * 512);
  }
}

TEST(SlabsTest, S38_TheStreamsOwnSlotsComeAgainAtOnce) {
  Small small;
  const uint64_t offset = small.Take(kStream, 700);
  small.slabs.Free(offset, kStream, 1);
  EXPECT_EQ(small.slabs.AskedAt(offset), 0U);
  EXPECT_EQ(small.Take(kStream, 1000), offset);
}

TEST(SlabsTest, S38_WhatAnotherStreamFreedWaitsForIt) {
  Small small;
  std::set<uint64_t> offsets;
  for (uint64_t i = 0; i < Slabs::kSlabBytes / Slabs::kMost; ++i) offsets.insert(small.Take(kStream, Slabs::kMost));
  const uint64_t offset = *offsets.begin();
  small.slabs.Free(offset, kOther, 4);
  EXPECT_EQ(small.slabs.live_bytes(), Slabs::kSlabBytes - Slabs::kMost);
  EXPECT_EQ(small.slabs.Take(kStream, Slabs::kMost), kNowhere);
  EXPECT_EQ(small.slabs.Take(kOther, Slabs::kMost), kNowhere);
  small.slabs.Pass(kOther, 3);
  EXPECT_EQ(small.slabs.Take(kStream, Slabs::kMost), kNowhere);
  small.slabs.Pass(kStream, 4);
  EXPECT_EQ(small.slabs.Take(kStream, Slabs::kMost), kNowhere);
  small.slabs.Pass(kOther, 4);
  EXPECT_EQ(small.slabs.Take(kStream, Slabs::kMost), offset);
}

TEST(SlabsTest, EmptySlabsGoBackInTheirStreamsOrder) {
  Small small;
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < 3 * Slabs::kSlabBytes / Slabs::kMost; ++i)
    offsets.push_back(small.Take(kStream, Slabs::kMost));
  EXPECT_EQ(small.space.live_bytes(), 3 * Slabs::kSlabBytes);
  uint64_t clock = 0;
  for (const uint64_t offset : offsets) small.slabs.Free(offset, kStream, ++clock);
  EXPECT_EQ(small.space.live_bytes(), Slabs::kSlabBytes) << "the last of its size stays";
  EXPECT_EQ(small.slabs.live_bytes(), 0U);
  EXPECT_GT(small.space.BytesOf(kStream), 0U) << "the work of the stream may still be on it";
  small.slabs.GiveBackEmpty();
  EXPECT_EQ(small.space.live_bytes(), 0U);
  EXPECT_EQ(small.slabs.Take(kStream, 1), kNowhere);
  small.space.Pass(kStream, clock);
  EXPECT_TRUE(small.space.Has(kNobodys, small.space.size()));
}

TEST(SlabsTest, OtherAddressesAreNobodys) {
  Small small;
  const uint64_t offset = small.Take(kStream, 1024);
  EXPECT_EQ(small.slabs.AskedAt(offset + 512), 0U);
  EXPECT_EQ(small.slabs.AskedAt(offset + 1024), 0U);
  EXPECT_EQ(small.slabs.AskedAt(offset + 8 * kMiB), 0U);
  EXPECT_EQ(small.slabs.AskedAt(UINT64_MAX), 0U);
  EXPECT_EQ(small.slabs.BeginOf(offset), offset);
  EXPECT_EQ(small.slabs.BeginOf(offset + 1023), offset);
  EXPECT_EQ(small.slabs.BeginOf(offset + 1024), kNowhere);
  EXPECT_EQ(small.slabs.BeginOf(UINT64_MAX), kNowhere);
}

// Against a model: a slot is handed out only behind its own stream's frees and others' that passed.
TEST(SlabsTest, S38_AnythingInAnyOrder) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Small small(4 * kMiB);
    struct Freed {
      Owner owner = kNobodys;
      uint64_t freed_at = 0;
    };
    std::map<uint64_t, uint64_t> live;  // offset, bytes
    std::map<uint64_t, Freed> freed;    // by unit of 512 bytes
    std::map<Owner, uint64_t> clock;
    std::map<Owner, uint64_t> passed;
    for (int i = 0; i < 5000; ++i) {
      const auto owner = static_cast<Owner>(kStream + random() % 2);
      const auto what = random() % 20;
      if (what == 0) {
        passed[owner] = std::max(passed[owner], clock[owner] - std::min<uint64_t>(clock[owner], random() % 8));
        small.slabs.Pass(owner, passed[owner]);
        small.space.Pass(owner, passed[owner]);
      } else if (what < 10 && !live.empty()) {
        const auto which = std::next(live.begin(), static_cast<ptrdiff_t>(random() % live.size()));
        const uint64_t freed_at = ++clock[owner];
        for (uint64_t at = 0; at < which->second; at += 512) {
          freed[which->first + at] = {.owner = owner, .freed_at = freed_at};
        }
        small.slabs.Free(which->first, owner, freed_at);
        live.erase(which);
      } else if (what < 19) {
        const uint64_t bytes = 1 + random() % (random() % 2 == 0 ? 2048 : Slabs::kMost);
        const uint64_t offset = small.Take(owner, bytes);
        if (offset == kNowhere) continue;
        const auto next = live.lower_bound(offset);
        ASSERT_TRUE(next == live.end() || next->first >= offset + bytes);
        ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= offset);
        live[offset] = (bytes + 511) / 512 * 512;
        for (uint64_t at = 0; at < live[offset]; at += 512) {
          const auto last = freed.find(offset + at);
          if (last == freed.end()) continue;
          ASSERT_TRUE(last->second.owner == owner || last->second.freed_at <= passed[last->second.owner]);
        }
      } else {
        small.slabs.GiveBackEmpty();
      }
      uint64_t bytes = 0;
      for (const auto& [offset, size] : live) bytes += size;
      ASSERT_EQ(small.slabs.live_bytes(), bytes);
    }
  }
}

}  // namespace
}  // namespace slipstream::allocator
