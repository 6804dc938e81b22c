// What the policy makes of a copy.

#include "policy/transfer_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

namespace slipstream::policy {
namespace {

constexpr Direction kUp = Direction::kHostToDevice;
constexpr Direction kDown = Direction::kDeviceToHost;
constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;  // of most copies

static_assert(std::is_trivially_copyable_v<TransferPlan>, "the engine keeps one for each thread");

TransferRule Promotes(bool promote) {
  TransferRule rule;
  rule.promote = promote ? RuleSwitch::kTrue : RuleSwitch::kFalse;
  return rule;
}

TransferRule Skips(bool skip) {
  TransferRule rule;
  rule.skip_synchronize = skip ? RuleSwitch::kTrue : RuleSwitch::kFalse;
  return rule;
}

TEST(TransferPlan, WithoutRulesTheKeysDecide) {
  Transfer policy;
  EXPECT_TRUE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_TRUE(PlanOf(policy, kUp, kBytes, 0).skip_synchronize);
  EXPECT_EQ(PlanOf(policy, kUp, kBytes, 0).rule, TransferPlan::kNoRule);
  EXPECT_TRUE(PlanOf(policy, kDown, kBytes, 0).promote);
  policy.d2h = TransferMode::kOff;
  EXPECT_FALSE(PlanOf(policy, kDown, kBytes, 0).promote);

  policy.small_copies = false;
  EXPECT_FALSE(PlanOf(policy, kUp, kSmallCopyBytes, 0).promote);
  EXPECT_EQ(PlanOf(policy, kUp, kSmallCopyBytes, 0).promote_by, Decider::kSizeKey);
  EXPECT_TRUE(PlanOf(policy, kUp, kSmallCopyBytes + 1, 0).promote);
  policy = {};
  policy.large_copies = false;
  EXPECT_TRUE(PlanOf(policy, kUp, kSmallCopyBytes, 0).promote);
  EXPECT_FALSE(PlanOf(policy, kUp, kSmallCopyBytes + 1, 0).promote);
  policy = {};
  policy.h2d = TransferMode::kOff;
  EXPECT_FALSE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_EQ(PlanOf(policy, kUp, kBytes, 0).promote_by, Decider::kDirectionKey);
  policy = {};
  policy.skip_synchronize = false;
  EXPECT_TRUE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_FALSE(PlanOf(policy, kUp, kBytes, 0).skip_synchronize);
  EXPECT_EQ(PlanOf(policy, kUp, kBytes, 0).skip_by, Decider::kSkipKey);
}

TEST(TransferPlan, SizesOfARuleIncludeBothEnds) {
  Transfer policy;
  policy.rules = {Promotes(false)};
  policy.rules[0].min_size = 100;
  policy.rules[0].max_size = 200;
  for (const std::uint64_t bytes : {99, 201}) EXPECT_TRUE(PlanOf(policy, kUp, bytes, 0).promote) << bytes;
  for (const std::uint64_t bytes : {100, 150, 200}) {
    const TransferPlan plan = PlanOf(policy, kUp, bytes, 0);
    EXPECT_FALSE(plan.promote) << bytes;
    EXPECT_EQ(plan.promote_by, Decider::kRule);
    EXPECT_EQ(plan.rule, 0);
  }
}

TEST(TransferPlan, ARuleIsForItsDirectionAndDevice) {
  Transfer policy;
  policy.d2h = TransferMode::kOn;
  policy.rules = {Promotes(false)};
  policy.rules[0].direction = RuleDirection::kDeviceToHost;
  EXPECT_TRUE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_FALSE(PlanOf(policy, kDown, kBytes, 0).promote);
  policy.rules[0].direction = RuleDirection::kHostToDevice;
  EXPECT_FALSE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_TRUE(PlanOf(policy, kDown, kBytes, 0).promote);
  policy.rules[0].direction = RuleDirection::kBoth;
  EXPECT_FALSE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_FALSE(PlanOf(policy, kDown, kBytes, 0).promote);

  policy.rules[0].device = 1;
  EXPECT_TRUE(PlanOf(policy, kUp, kBytes, 0).promote);
  EXPECT_FALSE(PlanOf(policy, kUp, kBytes, 1).promote);
}

TEST(TransferPlan, TheFirstMatchDecidesAndTheKeysSayTheRest) {
  Transfer policy;
  policy.rules = {Skips(false), Promotes(false)};
  policy.rules[0].min_size = kBytes;
  TransferPlan plan = PlanOf(policy, kUp, kBytes, 0);
  EXPECT_EQ(plan.rule, 0);
  EXPECT_TRUE(plan.promote) << "the second rule is not asked";
  EXPECT_EQ(plan.promote_by, Decider::kSizeKey);
  EXPECT_FALSE(plan.skip_synchronize);
  EXPECT_EQ(plan.skip_by, Decider::kRule);
  plan = PlanOf(policy, kUp, kBytes - 1, 0);
  EXPECT_EQ(plan.rule, 1);
  EXPECT_FALSE(plan.promote);
  EXPECT_EQ(plan.skip_by, Decider::kSkipKey);
}

TEST(TransferPlan, ARulePromotesWhatTheKeysLeaveAlone) {
  Transfer policy;
  policy.h2d = TransferMode::kOff;
  policy.small_copies = policy.large_copies = policy.skip_synchronize = false;
  policy.rules = {Promotes(true)};
  policy.rules[0].skip_synchronize = RuleSwitch::kTrue;
  for (const std::uint64_t bytes : {std::uint64_t{1}, kSmallCopyBytes + 1}) {
    EXPECT_TRUE(PlanOf(policy, kUp, bytes, 0).promote);
    EXPECT_TRUE(PlanOf(policy, kUp, bytes, 0).skip_synchronize);
  }
  EXPECT_TRUE(PlanOf(policy, kDown, kBytes, 0).promote);
}

TEST(TransferPlan, WhatTheEngineCannotDoNoRuleMakesItDo) {
  Transfer policy;
  policy.d2h = TransferMode::kOn;
  policy.rules = {Promotes(true)};
  policy.rules[0].skip_synchronize = RuleSwitch::kTrue;
  EXPECT_FALSE(PlanOf(policy, kDown, kSmallCopyBytes, 0).promote);
  EXPECT_EQ(PlanOf(policy, kDown, kSmallCopyBytes, 0).promote_by, Decider::kEngine);
  EXPECT_FALSE(PlanOf(policy, kDown, kBytes, 0).skip_synchronize) << "such a copy is complete when it returns";
  EXPECT_EQ(PlanOf(policy, kDown, kBytes, 0).skip_by, Decider::kEngine);
}

TEST(TransferPlan, AnEngineIsWantedWhereAKeyOrARulePromotes) {
  Transfer policy;
  EXPECT_TRUE(Considers(policy, kUp));
  EXPECT_TRUE(Considers(policy, kDown));
  EXPECT_EQ(OffByPolicy(policy), nullptr);
  policy.h2d = TransferMode::kOff;
  EXPECT_EQ(OffByPolicy(policy), nullptr);
  policy.d2h = TransferMode::kOff;
  EXPECT_FALSE(Considers(policy, kDown));
  EXPECT_STREQ(OffByPolicy(policy), "transfer.h2d = \"off\", transfer.d2h = \"off\"");
  policy.rules = {Promotes(false), Skips(true)};
  EXPECT_NE(OffByPolicy(policy), nullptr) << "neither rule promotes anything";
  policy.rules.push_back(Promotes(true));
  policy.rules[2].direction = RuleDirection::kDeviceToHost;
  EXPECT_EQ(OffByPolicy(policy), nullptr);
  EXPECT_FALSE(Considers(policy, kUp));
  EXPECT_TRUE(Considers(policy, kDown));

  policy = {};
  policy.d2h = TransferMode::kOff;
  policy.small_copies = policy.large_copies = false;
  EXPECT_STREQ(OffByPolicy(policy), "transfer.small_copies = false, transfer.large_copies = false");
  policy.rules = {Promotes(true)};
  EXPECT_EQ(OffByPolicy(policy), nullptr);
  policy.rules.clear();
  policy.d2h = TransferMode::kOn;
  EXPECT_EQ(OffByPolicy(policy), nullptr);
}

TEST(TransferPlan, ThreadsAreThoseOfThePolicy) {
  Transfer policy;
  policy.threads = 7;
  EXPECT_EQ(CopyThreads(policy, 2), 7);
  policy.threads = 0;
  EXPECT_GE(CopyThreads(policy, 0), 1);
  EXPECT_LE(CopyThreads(policy, 0), 4);
  EXPECT_EQ(CopyThreads(policy, 1 << 20), 1) << "a machine's processors are shared by its ranks";
}

}  // namespace
}  // namespace slipstream::policy
