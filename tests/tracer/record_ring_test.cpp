// Rings: order, losses that are counted where they happen, and rings that one thread leaves to the next.

#include "tracer/spool/record_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tracer/spool/record_rings.h"

namespace slipstream::tracer {
namespace {

using Pushed = RecordRing::Pushed;

struct Unmapper {
  void operator()(RecordRing* ring) const { RecordRing::Unmap(ring); }
};
using RingPointer = std::unique_ptr<RecordRing, Unmapper>;

RingPointer NewRing(uint32_t records) { return RingPointer(RecordRing::Map(records, {.number = 1, .thread = 77})); }

TraceRecord Call(uint64_t number) {
  return {.start_ns = 100 + number, .end_ns = 200 + number, .bytes = number, .kind = RecordKind::kCall};
}

std::vector<TraceRecord> TakeAll(RecordRing* ring, uint64_t at_most = ~uint64_t{0}) {
  std::vector<TraceRecord> records(std::min(ring->Available(), at_most));
  ring->Copy(records.size(), records.data());
  ring->Advance(records.size());
  return records;
}

TEST(RecordRingTest, OnlyPowersOfTwoWithinTheLimits) {
  for (const uint32_t records : {0U, 4U, 9U, RecordRing::kMaxRecords * 2}) EXPECT_EQ(NewRing(records), nullptr);
  EXPECT_NE(NewRing(RecordRing::kMinRecords), nullptr);
}

TEST(RecordRingTest, WhatIsPushedComesInOrderRoundAndRound) {
  const RingPointer ring = NewRing(8);
  uint64_t pushed = 0;
  uint64_t taken = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 1 + round % 8; ++i) EXPECT_NE(ring->Push(Call(pushed++)), Pushed::kDropped);
    EXPECT_EQ(ring->taken(), taken);
    for (const TraceRecord& record : TakeAll(ring.get())) {
      EXPECT_EQ(record.bytes, taken++);
      EXPECT_EQ(record.end_ns, 200 + record.bytes);
    }
    EXPECT_EQ(taken, pushed);
  }
  EXPECT_EQ(ring->pushed(), pushed);
  EXPECT_EQ(ring->dropped(), 0U);
}

TEST(RecordRingTest, TheConsumerIsCalledWhenHalfIsFullAndNotBefore) {
  const RingPointer ring = NewRing(16);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ring->Push(Call(0)), Pushed::kYes) << i;
  EXPECT_TRUE(ring->IsHalfFull());
  EXPECT_EQ(ring->Push(Call(0)), Pushed::kHalfFull);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(ring->Push(Call(0)), Pushed::kYes) << i;  // once is enough
  EXPECT_EQ(ring->Push(Call(0)), Pushed::kDropped);
  TakeAll(ring.get());
  EXPECT_FALSE(ring->IsHalfFull());
  for (int i = 0; i < 7; ++i) EXPECT_EQ(ring->Push(Call(0)), Pushed::kYes) << i;  // and one for those dropped
  EXPECT_EQ(ring->Push(Call(0)), Pushed::kHalfFull);
}

TEST(RecordRingTest, WhatDoesNotFitIsCountedWhereItIsMissing) {
  const RingPointer ring = NewRing(8);
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) EXPECT_NE(ring->Push(Call(number++)), Pushed::kDropped);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ring->Push(Call(number++)), Pushed::kDropped);
  EXPECT_EQ(ring->dropped(), 5U);
  // Room for one is not enough: the count comes first.
  EXPECT_EQ(TakeAll(ring.get(), 1).size(), 1U);
  EXPECT_EQ(ring->Push(Call(number++)), Pushed::kDropped);
  EXPECT_EQ(TakeAll(ring.get(), 1).size(), 1U);
  EXPECT_NE(ring->Push(Call(number++)), Pushed::kDropped);
  EXPECT_EQ(ring->Push(Call(number++)), Pushed::kDropped);

  std::vector<TraceRecord> records = TakeAll(ring.get());
  ASSERT_EQ(records.size(), 8U);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(records[i].bytes, i + 2);
  EXPECT_EQ(records[6].kind, RecordKind::kDrop);
  EXPECT_EQ(records[6].bytes, 6U);
  EXPECT_EQ(DroppedUpTo(records[6]), 6U);
  EXPECT_EQ(records[6].start_ns, 100 + 8U);
  EXPECT_EQ(records[6].end_ns, 200 + 13U);
  EXPECT_EQ(records[7].bytes, 14U);

  EXPECT_NE(ring->Push(Call(number++)), Pushed::kDropped);
  records = TakeAll(ring.get());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, RecordKind::kDrop);
  EXPECT_EQ(records[0].bytes, 1U);
  EXPECT_EQ(DroppedUpTo(records[0]), 7U);
  EXPECT_EQ(records[1].bytes, 16U);
}

TEST(RecordRingTest, TheNextOwnerBeginsAtNothing) {
  const RingPointer ring = NewRing(8);
  for (int i = 0; i < 11; ++i) ring->Push(Call(0));
  EXPECT_FALSE(ring->TryTake({.number = 2}));
  ring->End();
  EXPECT_TRUE(ring->HasEnded());
  EXPECT_FALSE(ring->TryTake({.number = 2})) << "it is not drained";
  EXPECT_EQ(ring->owner()->number, 1U);
  TakeAll(ring.get());
  EXPECT_EQ(ring->taken(), 8U);
  ring->Free();
  EXPECT_EQ(ring->owner(), nullptr);
  ASSERT_TRUE(ring->TryTake({.number = 2, .thread = 78}));
  EXPECT_FALSE(ring->HasEnded());
  EXPECT_EQ(ring->owner()->number, 2U);
  EXPECT_EQ(ring->taken(), 0U);
  EXPECT_EQ(ring->dropped(), 0U);
  ring->Push(Call(5));
  const std::vector<TraceRecord> records = TakeAll(ring.get());
  ASSERT_EQ(records.size(), 1U) << "what the one before dropped is not said here";
  EXPECT_EQ(ring->owner()->thread, 78U);
  EXPECT_EQ(ring->taken(), 1U);
}

TEST(RecordRingTest, OneProducerAndOneConsumerAtFullSpeed) {
  const RingPointer ring = NewRing(64);
  constexpr uint64_t kCalls = 300'000;
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCalls; ++i) ring->Push(Call(i));
    done.store(true);
  });
  uint64_t next = 0;
  uint64_t dropped = 0;
  bool last = false;
  while (true) {
    const std::vector<TraceRecord> records = TakeAll(ring.get());
    for (const TraceRecord& record : records) {
      if (record.kind == RecordKind::kDrop) {
        next += record.bytes;
        dropped += record.bytes;
        ASSERT_EQ(DroppedUpTo(record), dropped);
      } else {
        ASSERT_EQ(record.bytes, next);
        ASSERT_EQ(record.start_ns, 100 + next);
        ASSERT_EQ(record.end_ns, 200 + next);
        ++next;
      }
    }
    if (records.empty() && last) break;
    last = done.load();
  }
  producer.join();
  EXPECT_EQ(next + ring->dropped() - dropped, kCalls);
}

TEST(RecordRingsTest, NoMoreThanTheLimitAndFreeOnesFirst) {
  RecordRings rings(8, 2);
  ASSERT_TRUE(rings.valid());
  RecordRing* const a = rings.Take({.thread = 1});
  RecordRing* const b = rings.Take({.thread = 2});
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_NE(a, b);
  EXPECT_NE(a->owner()->number, b->owner()->number);
  EXPECT_EQ(rings.Take({.thread = 3}), nullptr);
  EXPECT_EQ(rings.mapped(), 2U);
  const uint32_t freed = rings.times_freed();
  b->End();
  EXPECT_EQ(rings.Take({.thread = 3}), nullptr) << "it is not drained";
  b->Free();
  rings.Freed();
  EXPECT_NE(rings.times_freed(), freed);
  EXPECT_EQ(rings.Take({.thread = 3}), b);
  EXPECT_EQ(b->owner()->thread, 3U);
}

TEST(RecordRingsTest, ThreadsThatComeAtOnceGetRingsOfTheirOwn) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 50; ++round) {
    RecordRings rings(8, kThreads - 2);
    std::vector<RecordRing*> got(kThreads);
    std::atomic<int> waiting{kThreads};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        --waiting;
        while (waiting.load() != 0) std::this_thread::yield();
        got[t] = rings.Take({.thread = static_cast<uint32_t>(t)});
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<RecordRing*> different;
    std::set<uint32_t> numbers;
    for (RecordRing* const ring : got) {
      if (ring == nullptr) continue;
      different.insert(ring);
      numbers.insert(ring->owner()->number);
    }
    ASSERT_EQ(different.size(), kThreads - 2U);
    ASSERT_EQ(numbers.size(), kThreads - 2U);
    ASSERT_EQ(rings.mapped(), kThreads - 2U);
  }
}

}  // namespace
}  // namespace slipstream::tracer
