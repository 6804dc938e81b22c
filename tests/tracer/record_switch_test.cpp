#include "tracer/spool/record_switch.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tracer/base/clock.h"

namespace slipstream::tracer {
namespace {

constexpr RecordSwitch::Reason kWindow = RecordSwitch::kOutsideWindow;
constexpr RecordSwitch::Reason kTurnedOff = RecordSwitch::kTurnedOff;

class RecordSwitchTest : public ::testing::Test {
 protected:
  std::vector<RecordSwitch::Change> Changes() {
    std::vector<RecordSwitch::Change> changes;
    for (RecordSwitch::Change change; switch_->Next(&change);) changes.push_back(change);
    return changes;
  }
  // Of zeros, as in a page that is new.
  std::unique_ptr<RecordSwitch> switch_{new RecordSwitch{}};
};

TEST_F(RecordSwitchTest, ItIsOnWhereThereIsNoReasonNotToBe) {
  EXPECT_FALSE(switch_->on());
  switch_->Pause(kWindow, true);
  switch_->Pause(kWindow, false);
  EXPECT_FALSE(switch_->on()) << "as in a forked child";
  switch_->Begin(kWindow);
  EXPECT_FALSE(switch_->on());
  switch_->Pause(kTurnedOff, true);
  switch_->Pause(kWindow, false);
  EXPECT_FALSE(switch_->on());
  switch_->Pause(kTurnedOff, false);
  EXPECT_TRUE(switch_->on());
  switch_->End(/*by_itself=*/false);
  EXPECT_FALSE(switch_->on());
  EXPECT_FALSE(switch_->ended_by_itself());
}

TEST_F(RecordSwitchTest, WhatEndedByItselfMissesOnlyWhatWasWanted) {
  switch_->Begin(0);
  switch_->End(/*by_itself=*/true);
  EXPECT_FALSE(switch_->on());
  EXPECT_TRUE(switch_->ended_by_itself());
  switch_->Pause(kWindow, true);
  EXPECT_FALSE(switch_->ended_by_itself());
  switch_->Pause(kWindow, false);
  EXPECT_TRUE(switch_->ended_by_itself());
  EXPECT_TRUE(Changes().empty()) << "nothing was recorded before or after";
}

TEST_F(RecordSwitchTest, ChangesHaveTimesAndComeInOrder) {
  switch_->Begin(0);
  EXPECT_TRUE(Changes().empty());
  const uint64_t before = NowNs();
  switch_->Pause(kWindow, true);
  switch_->Pause(kWindow, true);     // is so already
  switch_->Pause(kTurnedOff, true);  // one reason more
  switch_->Pause(kWindow, false);    // and one less
  const uint64_t between = NowNs();
  switch_->Pause(kTurnedOff, false);
  const uint64_t after = NowNs();
  const std::vector<RecordSwitch::Change> changes = Changes();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_FALSE(changes[0].on);
  EXPECT_TRUE(changes[1].on);
  EXPECT_LE(before, changes[0].at_ns);
  EXPECT_LE(changes[0].at_ns, between);
  EXPECT_LE(between, changes[1].at_ns);
  EXPECT_LE(changes[1].at_ns, after);
  EXPECT_TRUE(Changes().empty()) << "each comes once";
  // Whoever takes them now and then finds all, however many there are in all.
  for (uint32_t i = 0; i < 5 * RecordSwitch::kChanges; ++i) {
    switch_->Pause(kWindow, true);
    switch_->Pause(kWindow, false);
    ASSERT_EQ(Changes().size(), 2U);
  }
}

TEST_F(RecordSwitchTest, TheBitOfAWordFollows) {
  std::atomic<uint32_t> word{1 | 8};
  switch_->Begin(kWindow);
  switch_->Bind(&word, 8);
  EXPECT_EQ(word.load(), 1U);
  switch_->Pause(kWindow, false);
  EXPECT_EQ(word.load(), 1U | 8U);
  switch_->Pause(kTurnedOff, true);
  EXPECT_EQ(word.load(), 1U);
  switch_->End(/*by_itself=*/true);
  switch_->Pause(kTurnedOff, false);
  EXPECT_EQ(word.load(), 1U | 8U) << "later calls are to be counted";
}

TEST_F(RecordSwitchTest, TwoThreadsEachWithItsReason) {
  for (int round = 0; round < 200; ++round) {
    switch_ = std::make_unique<RecordSwitch>();
    std::atomic<uint32_t> word{2};
    switch_->Begin(0);
    switch_->Bind(&word, 4);
    constexpr int kTimes = 15;  // fewer changes than find room
    std::atomic<int> ready{0};
    const auto toggle = [&](RecordSwitch::Reason reason) {
      ++ready;
      while (ready.load() != 2) {
      }
      for (int i = 0; i < kTimes; ++i) {
        switch_->Pause(reason, true);
        switch_->Pause(reason, false);
      }
    };
    std::thread other([&] { toggle(kWindow); });
    toggle(kTurnedOff);
    other.join();
    ASSERT_TRUE(switch_->on());
    ASSERT_EQ(word.load(), 2U | 4U);
    const std::vector<RecordSwitch::Change> changes = Changes();
    ASSERT_EQ(changes.size() % 2, 0U);
    ASSERT_GE(changes.size(), 2U);
    for (size_t i = 0; i < changes.size(); ++i) ASSERT_EQ(changes[i].on, i % 2 == 1) << i;
  }
}

}  // namespace
}  // namespace slipstream::tracer
