// What findings are worth together, against the steps of replay_testing.h and without a replay.

#include "tools/trace/advise/costs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/advise/replay_testing.h"
#include "tools/trace/report/format.h"

namespace slipstream::advise {
namespace {

using Waits = Replay::Waits;

const Rule kFirst = {"first", "", "", nullptr};
const Rule kSecond = {"second", "", "", nullptr};

// A step of 1 ms on a device that is idle for 220 us of it.
class CostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    report::ProcessReport& process = report_.processes.emplace_back();
    process.has_steps = true;
    process.measured_steps = 1;
    process.step_time.median = 1000 * kUs;
    report::DeviceReport& device = process.devices.emplace_back();
    device.kernels = 2;
    device.times.idle[report::kHostOutside] = 220 * kUs;
    facts_.report = &report_;
    facts_.process = &process;
    facts_.devices_recorded = true;
    facts_.calls.resize(3);
    facts_.calls[kWait].time = 490 * kUs;
    facts_.work.resize(1);
    facts_.work[0].time = 780 * kUs;
  }
  // As in ReplayTest: the first wait is worth 30 us, the second one 10, and both together 208.5.
  void TwoWaits() {
    StepEvents step(1000);
    step.Work(10, 500, 0, step.Call(0, 10, kLaunch));
    step.Call(20, 510, kWait, Waits::kForTheDevice);
    step.Call(520, 530, kOtherWait, Waits::kForTheDevice);
    step.Work(710, 1000, 0, step.Call(700, 710, kLaunch));
    facts_.replay = std::make_shared<const Replay>(step.Made());
  }
  void OneWait() {
    StepEvents step(1000);
    step.Work(10, 500, 0, step.Call(0, 10, kLaunch));
    step.Call(20, 510, kWait, Waits::kForTheDevice);
    step.Work(710, 1000, 0, step.Call(700, 710, kLaunch));
    facts_.replay = std::make_shared<const Replay>(step.Made());
  }
  // A rule says that the call is to go, and what that is worth.
  Advice& Find(const Rule& rule, uint32_t call, int64_t cost, Confidence confidence = Confidence::kMedium) {
    RuleVerdict& found = found_.emplace_back();
    found.rule = &rule;
    found.verdict.kind = Verdict::Kind::kAdvice;
    Advice& advice = found.verdict.advice;
    advice.cost = cost;
    advice.confidence = confidence;
    advice.what_if.calls.assign(facts_.calls.size(), CallChange::kStays);
    advice.what_if.calls[call] = CallChange::kGone;
    return advice;
  }
  int64_t CostOf(const Rule& rule) const { return AdviceOf(rule).cost.value_or(-1); }
  const Advice& AdviceOf(const Rule& rule) const {
    static const Advice none;
    for (const RuleVerdict& found : found_) {
      if (found.rule == &rule) return found.verdict.advice;
    }
    ADD_FAILURE() << rule.name << " is not among them";
    return none;
  }

  report::Report report_;
  Facts facts_;
  std::vector<RuleVerdict> found_;
};

TEST_F(CostsTest, AFindingIsWorthWhatTheReplayGains) {
  OneWait();
  Find(kFirst, kWait, 490 * kUs);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 208 * kUs + kUs / 2);
  EXPECT_TRUE(AdviceOf(kFirst).evidence.empty());
}

// A replay has the usual steps alone.
TEST_F(CostsTest, WhatSlowStepsLoseComesOnTop) {
  OneWait();
  Find(kFirst, kWait, 490 * kUs, Confidence::kHigh).of_slow_steps = 100 * kUs;
  Find(kSecond, kWait, 400 * kUs, Confidence::kLow);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 308 * kUs + kUs / 2);
  EXPECT_EQ(CostOf(kSecond), 0) << "the usual steps' are counted once";
  // And is no more than a step.
  found_.clear();
  Find(kFirst, kWait, 490 * kUs).of_slow_steps = 900 * kUs;
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 1000 * kUs);
}

// Kernels that take a tenth less end 49 us earlier where the host waits. The rest is not given to others.
TEST_F(CostsTest, AFindingMayBeLimitedByAnotherChange) {
  OneWait();
  Find(kFirst, kWait, 490 * kUs, Confidence::kHigh).no_more.work = {0.9};
  Find(kSecond, kWait, 490 * kUs, Confidence::kLow);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 49 * kUs);
  EXPECT_EQ(CostOf(kSecond), 0);
}

// Without a replay, what it shares with others is counted by that change.
TEST_F(CostsTest, WithoutAReplayTheLimitIsWhatIsShared) {
  for (const Rule* const rule : {&kFirst, &kSecond}) {
    const bool is_first = rule == &kFirst;
    Advice& advice = Find(*rule, kWait, is_first ? 100 * kUs : 500 * kUs, Confidence::kHigh);
    advice.gains = Gains::kBusy;
    advice.scope = is_first ? Scope::kSpecific : Scope::kUsual;
    advice.what_if = WhatIf{};
    (is_first ? advice.no_more : advice.what_if).work = {0.5};
  }
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 100 * kUs);
  EXPECT_EQ(CostOf(kSecond), 110 * kUs) << "500 us less half of the work's 780";
}

TEST_F(CostsTest, TwoFaultsAtOneLineAreCountedOnce) {
  OneWait();
  Find(kFirst, kWait, 490 * kUs, Confidence::kLow);
  Find(kSecond, kWait, 400 * kUs, Confidence::kHigh);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kSecond), 208 * kUs + kUs / 2) << "the surer one keeps it";
  EXPECT_EQ(CostOf(kFirst), 0);
  EXPECT_EQ(AdviceOf(kFirst).evidence, std::vector<std::string>{"by itself " + report::Time(208 * kUs + kUs / 2) +
                                                                ": the rest is counted under second"});
  EXPECT_TRUE(AdviceOf(kSecond).evidence.empty());
}

TEST_F(CostsTest, TheMoreSpecificOneKeepsIt) {
  OneWait();
  Find(kFirst, kWait, 490 * kUs, Confidence::kHigh);
  Find(kSecond, kWait, 400 * kUs, Confidence::kLow).scope = Scope::kSpecific;
  ShareOut(facts_, &found_);
  EXPECT_EQ(CostOf(kSecond), 208 * kUs + kUs / 2);
  EXPECT_EQ(CostOf(kFirst), 0);
}

// What is left of a general one is nothing: it is not said.
TEST_F(CostsTest, AGeneralOneWithNothingLeftIsTakenOut) {
  OneWait();
  Find(kFirst, kWait, 490 * kUs, Confidence::kHigh).scope = Scope::kGeneral;
  Find(kSecond, kWait, 400 * kUs, Confidence::kLow);
  EXPECT_EQ(ShareOut(facts_, &found_), std::vector<const Rule*>{&kFirst});
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(CostOf(kSecond), 208 * kUs + kUs / 2);
}

TEST_F(CostsTest, WhatOnlyBothGainIsSaid) {
  TwoWaits();
  Find(kFirst, kWait, 490 * kUs);
  Find(kSecond, kOtherWait, 10 * kUs);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 30 * kUs);
  EXPECT_EQ(CostOf(kSecond), 178 * kUs + kUs / 2);
  EXPECT_EQ(AdviceOf(kSecond).evidence,
            std::vector<std::string>{"by itself " + report::Time(10 * kUs) + ": the rest only once first is gone too"});
}

// By itself each moves the host from one wait to the other: 3 us and 1.
TEST_F(CostsTest, TwoWaitsThatAreWorthNothingByThemselves) {
  StepEvents step(1000);
  step.Work(10, 500, 0, step.Call(0, 10, kLaunch));
  step.Call(20, 501, kWait, Waits::kForTheDevice);
  step.Call(502, 503, kOtherWait, Waits::kForTheDevice);
  step.Work(710, 1000, 0, step.Call(700, 710, kLaunch));
  facts_.replay = std::make_shared<const Replay>(step.Made());
  Find(kFirst, kWait, 481 * kUs);
  Find(kSecond, kOtherWait, kUs);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 3 * kUs);
  EXPECT_EQ(CostOf(kSecond), 205 * kUs + kUs / 2);
}

// The host is at its own business until the end of the step: kernels of half the time gain nothing, and what the host
// gains is not more for them.
TEST_F(CostsTest, ShorterKernelsBehindTheHostAreTakenOut) {
  StepEvents step(1000);
  step.Work(110, 610, 0, step.Call(100, 110, kLaunch));
  step.Call(990, 1000, kWait);
  facts_.replay = std::make_shared<const Replay>(step.Made());
  Advice& shorter = Find(kFirst, kOtherWait, 500 * kUs, Confidence::kHigh);
  shorter.what_if.work.assign(1, 0.5);
  shorter.gains = Gains::kBusy;
  Advice& host = Find(kSecond, kOtherWait, 500 * kUs);
  host.what_if.gaps.assign(facts_.calls.size(), 1000 * kUs);
  host.scope = Scope::kRest;
  EXPECT_EQ(ShareOut(facts_, &found_), std::vector<const Rule*>{&kFirst});
  // The device is idle until 8 us behind the launch then, and at work for 500.
  EXPECT_EQ(CostOf(kSecond), 220 * kUs) << "of 490, for which the device is not idle";
}

TEST_F(CostsTest, WhatIsWorthTooLittleIsTakenOut) {
  OneWait();
  Find(kFirst, kWait, 4 * kUs);
  Find(kSecond, kOtherWait, 500 * kUs);  // of no call in the step
  EXPECT_EQ(ShareOut(facts_, &found_), std::vector<const Rule*>{&kSecond});
  EXPECT_EQ(CostOf(kFirst), 208 * kUs + kUs / 2);
}

TEST_F(CostsTest, WithoutANumberItStaysWithoutOne) {
  OneWait();
  Find(kFirst, kWait, 0).cost.reset();
  Find(kSecond, kWait, 100 * kUs);
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(AdviceOf(kFirst).cost, std::nullopt);
  EXPECT_EQ(CostOf(kSecond), 208 * kUs + kUs / 2);
}

// What nothing could replay has its part of the idle time, and what is left for the others is the rest.
TEST_F(CostsTest, WhatIsNotReplayedIsCountedToo) {
  OneWait();
  Find(kFirst, kWait, 150 * kUs, Confidence::kHigh).what_if = {};
  Find(kSecond, kWait, 490 * kUs).scope = Scope::kGeneral;
  EXPECT_TRUE(ShareOut(facts_, &found_).empty());
  EXPECT_EQ(CostOf(kFirst), 150 * kUs);
  EXPECT_EQ(CostOf(kSecond), 70 * kUs) << "of 220, though it alone gains 208.5";
  EXPECT_EQ(AdviceOf(kSecond).evidence.size(), 1U);
}

TEST_F(CostsTest, WithoutAReplayNoMoreThanTheIdleTime) {
  Find(kFirst, kWait, 150 * kUs, Confidence::kHigh);
  Find(kSecond, kOtherWait, 150 * kUs);
  ShareOut(facts_, &found_);
  EXPECT_EQ(CostOf(kFirst), 150 * kUs);
  EXPECT_EQ(CostOf(kSecond), 70 * kUs) << "of 220";
  EXPECT_EQ(AdviceOf(kSecond).evidence,
            std::vector<std::string>{"by itself " + report::Time(150 * kUs) + ": the rest is counted under first"});
}

TEST_F(CostsTest, WithoutAReplayOneCallIsCountedOnce) {
  facts_.calls[kWait].time = 60 * kUs;
  Find(kFirst, kWait, 60 * kUs, Confidence::kHigh);
  Find(kSecond, kWait, 100 * kUs);  // 40 beside it
  ShareOut(facts_, &found_);
  EXPECT_EQ(CostOf(kFirst), 60 * kUs);
  EXPECT_EQ(CostOf(kSecond), 40 * kUs);
}

TEST_F(CostsTest, WithoutAReplayTheDevicesTimeIsItsOwn) {
  Find(kFirst, kWait, 220 * kUs, Confidence::kHigh);
  Find(kSecond, kOtherWait, 900 * kUs).gains = Gains::kBusy;
  ShareOut(facts_, &found_);
  EXPECT_EQ(CostOf(kFirst), 220 * kUs);
  EXPECT_EQ(CostOf(kSecond), 780 * kUs);
}

TEST_F(CostsTest, SlowStepsAreBesideTheOthers) {
  Find(kFirst, kWait, 220 * kUs, Confidence::kHigh);
  Find(kSecond, kOtherWait, 900 * kUs).gains = Gains::kSlowSteps;
  ShareOut(facts_, &found_);
  EXPECT_EQ(CostOf(kSecond), 900 * kUs);
}

// Nobody knows what the device did: all together are worth one step at the most.
TEST_F(CostsTest, WithoutDevicesNoMoreThanTheStep) {
  facts_.devices_recorded = false;
  Find(kFirst, kWait, 700 * kUs, Confidence::kHigh);
  Find(kSecond, kOtherWait, 700 * kUs).gains = Gains::kBusy;
  ShareOut(facts_, &found_);
  EXPECT_EQ(CostOf(kFirst), 700 * kUs);
  EXPECT_EQ(CostOf(kSecond), 300 * kUs);
}

}  // namespace
}  // namespace slipstream::advise
