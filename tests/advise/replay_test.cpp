// What a step takes with a change, worked out by hand for steps of a few calls. What is too short to tell what is usual
// has latencies of 8 us and gaps of 1.5 us between pieces of work.

#include "tools/trace/advise/replay.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/advise/replay_testing.h"

namespace slipstream::advise {
namespace {

using Waits = Replay::Waits;
// Groups of work.
constexpr uint32_t kKernel = 0;
constexpr uint32_t kCopy = 1;
constexpr uint32_t kDownload = 2;

WhatIf Gone(uint32_t call) {
  WhatIf what_if;
  what_if.calls.assign(call + 1, CallChange::kStays);
  what_if.calls[call] = CallChange::kGone;
  return what_if;
}
WhatIf Returns(uint32_t call) {
  WhatIf what_if = Gone(call);
  what_if.calls[call] = CallChange::kReturns;
  return what_if;
}
WhatIf NoGap(uint32_t call, int64_t most = 1000 * kUs) {
  WhatIf what_if;
  what_if.gaps.assign(call + 1, 0);
  what_if.gaps[call] = most;
  return what_if;
}
WhatIf Host(uint32_t call, double share) {
  WhatIf what_if;
  what_if.host.assign(call + 1, 1.0);
  what_if.host[call] = share;
  return what_if;
}
WhatIf Share(uint32_t work, double share) {
  WhatIf what_if;
  what_if.work.assign(work + 1, 1.0);
  what_if.work[work] = share;
  return what_if;
}

WhatIf Moved(uint32_t work, StreamChange change) {
  WhatIf what_if;
  what_if.streams.assign(work + 1, StreamChange::kStays);
  what_if.streams[work] = change;
  return what_if;
}

// A kernel until 500, which is waited for; the host is back at 510, and launches the next one at 700, until 1000.
StepEvents AWaitInTheStep() {
  StepEvents step(1000);
  step.Work(10, 500, kKernel, step.Call(0, 10, kLaunch));
  step.Call(20, 510, kWait, Waits::kForTheDevice);
  step.Work(710, 1000, kKernel, step.Call(700, 710, kLaunch));
  return step;
}

TEST(ReplayTest, WithoutAChangeItIsWhatWasRecorded) {
  EXPECT_EQ(AWaitInTheStep().Made().Recorded(), 1000 * kUs);
  EXPECT_EQ(AWaitInTheStep().Made().Saved(WhatIf{}), 0);
  EXPECT_EQ(AWaitInTheStep().Made().Saved(Share(kKernel, 1)), 0);
  EXPECT_EQ(AWaitInTheStep().Made(10).Recorded(), 100 * kUs) << "of ten steps";
}

// The host launches for 400 and 200 us, of which the recording added 100 each; the device waits for it. When a kernel
// begins after its call did is as it was.
TEST(ReplayTest, WhatTheRecordingAddedIsNoGain) {
  StepEvents step(1000);
  const uint32_t first = step.Call(0, 400, kLaunch);
  step.Work(10, 20, kKernel, first);
  const uint32_t second = step.Call(800, 1000, kOtherWait);
  step.Work(808, 820, kKernel, second);
  step.Adds(first, 100);
  step.Adds(second, 100);
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1000 * kUs);
  EXPECT_EQ(replay.Unrecorded(), 800 * kUs);
  EXPECT_EQ(replay.Saved(WhatIf{}), 0);
  EXPECT_EQ(replay.Saved(Gone(kLaunch)), 300 * kUs) << "of 800";
  EXPECT_EQ(replay.Saved(NoGap(kOtherWait)), 400 * kUs) << "the time between calls is nobody's";
  EXPECT_EQ(replay.Saved(Host(kOtherWait, 0.5)), 250 * kUs) << "half of the call, and of the time before it";
  EXPECT_EQ(replay.Saved(Host(kOtherWait, 0.9)), 50 * kUs);
}

// While the device has work, the calls may take as long as they like.
TEST(ReplayTest, WhatTheRecordingAddedIsNothingWhereTheDeviceIsBusy) {
  StepEvents step(1000);
  const uint32_t first = step.Call(0, 50, kLaunch);
  step.Work(60, 1000, kKernel, first);
  step.Adds(first, 20);
  step.Call(100, 1000, kWait, Waits::kForTheDevice);
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1000 * kUs);
  EXPECT_EQ(replay.Unrecorded(), 1000 * kUs);
}

// No more than all of a call; nothing of one that waits, or that another thread's calls cut into.
TEST(ReplayTest, WhatTheRecordingMayHaveAdded) {
  StepEvents step(1000);
  step.Work(10, 500, kKernel, step.Call(0, 10, kLaunch));
  step.Adds(step.Call(20, 510, kWait, Waits::kForTheDevice), 100);
  step.Adds(step.Call(600, 610, kLaunch), 1000);
  step.Adds(step.CallElsewhere(890, 1000, kOtherWait), 60);
  step.Call(900, 1000, kLaunch);
  EXPECT_EQ(step.Made().Unrecorded(), 990 * kUs);
}

// The second kernel is asked for at 210 then, and begins 1.5 us behind the first one's end. So it ends at
// 500 + 1.5 + 290. It is not the 490 us of the wait that are won.
TEST(ReplayTest, AWaitIsWorthTheIdleTimeBehindIt) {
  EXPECT_EQ(AWaitInTheStep().Made().Saved(Gone(kWait)), (1000 - 791) * kUs - kUs / 2);
  // A call that returns takes ten.
  EXPECT_EQ(AWaitInTheStep().Made().Saved(Returns(kWait)), (1000 - 791) * kUs - kUs / 2);
}

// The device has work all the time.
TEST(ReplayTest, AWaitThatTheDeviceWorksThroughIsWorthNothing) {
  StepEvents step(1000);
  step.Work(10, 500, kKernel, step.Call(0, 10, kLaunch));
  step.Work(500, 1000, kKernel, step.Call(10, 20, kLaunch));
  step.Call(30, 505, kWait, Waits::kForAnEvent);
  EXPECT_EQ(step.Made().Saved(Gone(kWait)), 0);
}

// The host is behind all the time: the wait is nothing, and its own time is saved.
TEST(ReplayTest, TheTimeBetweenCallsIsWorthWhatTheDeviceWaitsForIt) {
  EXPECT_EQ(AWaitInTheStep().Made().Saved(NoGap(kLaunch)), 190 * kUs);
  EXPECT_EQ(AWaitInTheStep().Made().Saved(NoGap(kLaunch, 190 * kUs)), 190 * kUs);
  EXPECT_EQ(AWaitInTheStep().Made().Saved(NoGap(kLaunch, 189 * kUs)), 0) << "longer than that";
  EXPECT_EQ(AWaitInTheStep().Made().Saved(Host(kWait, 0)), 0) << "it waits for the same work";
  EXPECT_EQ(AWaitInTheStep().Made().Saved(NoGap(kWait)), 0) << "10 us, in which the device is at work";
}

// The other one waits for the same kernel: each alone moves the wait, and only both end it.
TEST(ReplayTest, WhatIsNotWaitedForAtOneCallIsAtTheNext) {
  const auto two_waits = [] {
    StepEvents step(1000);
    step.Work(10, 500, kKernel, step.Call(0, 10, kLaunch));
    step.Call(20, 510, kWait, Waits::kForTheDevice);
    step.Call(520, 530, kOtherWait, Waits::kForTheDevice);
    step.Work(710, 1000, kKernel, step.Call(700, 710, kLaunch));
    return step.Made();
  };
  EXPECT_EQ(two_waits().Recorded(), 1000 * kUs);
  EXPECT_EQ(two_waits().Saved(Gone(kWait)), 30 * kUs) << "back at 500, not at 530";
  EXPECT_EQ(two_waits().Saved(Gone(kOtherWait)), 10 * kUs);
  WhatIf both = Gone(kWait);
  both.Add(Gone(kOtherWait));
  EXPECT_EQ(two_waits().Saved(both), (1000 - 791) * kUs - kUs / 2);
}

// Kernels of half the time: the first one is waited for, and behind the second one nothing is.
TEST(ReplayTest, ShorterKernelsAreWorthWhatTheHostWaitsForThem) {
  EXPECT_EQ(AWaitInTheStep().Made().Saved(Share(kKernel, 0.5)), 245 * kUs)
      << "the first one's 245; the host is at its own business until the step's end";
  // A host that is busy until the end has nothing of it.
  StepEvents step(1000);
  step.Work(10, 500, kKernel, step.Call(0, 10, kLaunch));
  step.Call(990, 1000, kWait);
  EXPECT_EQ(step.Made().Saved(Share(kKernel, 0.5)), 0);
}

// Of a stream that is known, only its own work is waited for.
TEST(ReplayTest, ASynchronizationWaitsForItsStream) {
  const auto waits_for = [](uint32_t stream) {
    StepEvents step(1000);
    step.Work(10, 400, kKernel, step.Call(0, 10, kLaunch), 0);
    step.Work(20, 500, kCopy, step.Call(10, 20, kLaunch), 1);
    step.Call(30, 500, kWait, Waits::kForItsStream, stream);
    step.Call(990, 1000, kLaunch);
    return step.Made();
  };
  EXPECT_EQ(waits_for(1).Saved(Share(kCopy, 0.5)), 240 * kUs);
  EXPECT_EQ(waits_for(1).Saved(Share(kKernel, 0.5)), 0);
  EXPECT_EQ(waits_for(Replay::kNone).Saved(Share(kCopy, 0.5)), 240 * kUs) << "which ended as the call did";
}

// A copy from pageable memory holds the host until its own work is done; an asynchronous one does not.
TEST(ReplayTest, ACopyWaitsForItself) {
  const auto copied = [](int64_t end) {
    StepEvents step(1000);
    step.Work(10, 500, kCopy, step.Call(0, end, kLaunch, Waits::kForItsOwnWork));
    step.Call(990, 1000, kWait);
    return step.Made();
  };
  EXPECT_EQ(copied(505).Saved(Share(kCopy, 0.5)), 245 * kUs);
  EXPECT_EQ(copied(20).Saved(Share(kCopy, 0.5)), 0);
}

// The driver's call, within the runtime's.
TEST(ReplayTest, ACopyWaitsForWhatACallWithinItAskedFor) {
  StepEvents step(1000);
  step.Call(0, 505, kLaunch, Waits::kForItsOwnWork);
  step.Work(10, 500, kCopy, step.Call(2, 504, kOtherWait, Waits::kForItsOwnWork));
  step.Call(990, 1000, kWait);
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1000 * kUs);
  EXPECT_EQ(replay.Saved(Share(kCopy, 0.5)), 245 * kUs);
  EXPECT_EQ(replay.Saved(Gone(kOtherWait)), 0) << "its time is the other one's";
}

// A kernel that began as the work of another stream ended waited for it.
TEST(ReplayTest, WorkWaitsForAnotherStream) {
  const auto behind = [](int64_t start) {
    StepEvents step(1000);
    step.Work(10, 400, kCopy, step.Call(0, 10, kLaunch), 1);
    step.Work(start, 1000, kKernel, step.Call(10, 20, kLaunch), 0);
    return step.Made();
  };
  EXPECT_EQ(behind(402).Recorded(), 1000 * kUs);
  // Its host has nothing to do behind 20, but the step is recorded until 1000.
  EXPECT_EQ(behind(402).Saved(Share(kCopy, 0.5)), 0);
  StepEvents step(420);
  step.Work(10, 400, kCopy, step.Call(0, 10, kLaunch), 1);
  step.Work(402, 1002, kKernel, step.Call(10, 20, kLaunch), 0);
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1002 * kUs) << "the work of the step, behind its end";
  EXPECT_EQ(replay.Saved(Share(kCopy, 0.5)), 195 * kUs);
}

// A loop that has the next batch copied before it launches: the kernels wait for the copy before the last one.
TEST(ReplayTest, WorkWaitsForAnotherStreamThatGoesOn) {
  StepEvents step(420);
  step.Work(10, 400, kCopy, step.Call(0, 10, kLaunch), 1);
  step.Work(402, 792, kCopy, step.Call(10, 20, kLaunch), 1);
  step.Work(412, 1002, kKernel, step.Call(20, 30, kLaunch), 0);
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1002 * kUs);
  EXPECT_EQ(replay.Saved(Share(kCopy, 0.5)), 195 * kUs);
}

TEST(ReplayTest, WorkThatIsGoneHoldsNothingUp) {
  StepEvents step(100);
  step.Work(10, 500, kCopy, step.Call(0, 10, kLaunch));
  step.Work(501, 600, kKernel, step.Call(10, 20, kLaunch));
  EXPECT_EQ(step.Made().Saved(Share(kCopy, 0)), (600 - 117) * kUs) << "asked for at 10, 8 us before it begins";
}

// While the thread that makes the steps is in no call, another one of its process drives the device.
TEST(ReplayTest, CallsOfOtherThreadsFillTheTimeBetween) {
  StepEvents step(1000);
  step.Call(0, 10, kLaunch);
  const uint32_t other = step.CallElsewhere(300, 400, kWait);
  step.CallElsewhere(790, 850, kWait);  // cut off by the next one of the step's thread
  step.Call(800, 810, kLaunch);
  step.Work(310, 350, kKernel, other);
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1000 * kUs);
  EXPECT_EQ(replay.Saved(Gone(kWait)), 110 * kUs);
  EXPECT_EQ(replay.Saved(NoGap(kWait)), (290 + 390) * kUs);
}

// As in AWaitInTheStep, but another thread waits, in a backward pass.
TEST(ReplayTest, AWaitOfAnotherThreadHoldsTheHost) {
  StepEvents step(1000);
  step.Work(10, 500, kKernel, step.Call(0, 10, kLaunch));
  step.CallElsewhere(20, 510, kWait, Waits::kForTheDevice);
  step.Work(710, 1000, kKernel, step.Call(700, 710, kLaunch));
  const Replay replay = step.Made();
  EXPECT_EQ(replay.Recorded(), 1000 * kUs);
  EXPECT_EQ(replay.Saved(Gone(kWait)), (1000 - 791) * kUs - kUs / 2);
}

// Launches of 1 us each, of kernels of 10 us each; the last launch lasts until 1000, when the 99th kernel ends. With
// kernels of half the time it has been asked for at 600 and takes 10.
TEST(ReplayTest, AFullQueueHoldsTheHost) {
  const auto launches = [](int64_t number) {
    StepEvents step(10'000);
    for (int64_t i = 0; i < number; ++i) {
      step.Work(10 + 10 * i, 20 + 10 * i, kKernel, step.Call(i, i + 1, kLaunch));
    }
    step.Work(10 + 10 * number, 20 + 10 * number, kKernel, step.Call(number, 1000, kLaunch));
    return step.Made();
  };
  EXPECT_EQ(launches(600).Recorded(), 10'000 * kUs);
  EXPECT_EQ(launches(600).Saved(Share(kKernel, 0.5)), 390 * kUs);
  // With 400 of them it is no queue that it waits for.
  EXPECT_EQ(launches(400).Saved(Share(kKernel, 0.5)), 0);
}

// Steps of 1000: a copy from 10 on, a kernel 1 us behind it, on the same stream, and the host waits for that stream
// until 5 us behind the kernel.
Replay CopiesAndComputes(int64_t steps, int64_t copy, int64_t kernel, Waits waits = Waits::kForItsStream) {
  StepEvents all(1000 * steps);
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t begin = 1000 * i;
    const int64_t behind = begin + 11 + copy;
    all.Step(begin);
    all.Work(begin + 10, begin + 10 + copy, kCopy, all.Call(begin, begin + 10, kLaunch));
    all.Work(behind, behind + kernel, kKernel, all.Call(begin + 10, begin + 20, kLaunch));
    all.Call(begin + 30, behind + kernel + 5, kWait, waits, waits == Waits::kForItsStream ? 0 : Replay::kNone);
  }
  return all.Made();
}

// The kernel is asked for at 10 and begins at 18, not at 211. In each step the copy is one for the next one.
TEST(ReplayTest, ACopyAheadIsHiddenByLongerKernels) {
  const WhatIf ahead = Moved(kCopy, StreamChange::kAhead);
  EXPECT_EQ(CopiesAndComputes(1, 200, 689).Saved(ahead), 193 * kUs);
  EXPECT_EQ(CopiesAndComputes(3, 200, 689).Saved(ahead), int64_t{3} * 193 * kUs);
  EXPECT_EQ(CopiesAndComputes(3, 200, 689, Waits::kForTheDevice).Saved(ahead), int64_t{3} * 193 * kUs);
}

// Copies of 700 us: the first one ends at 710, the others follow 1.5 us apart, until 2113.
TEST(ReplayTest, CopiesAheadTakeTheirTimeOnTheBus) {
  const WhatIf ahead = Moved(kCopy, StreamChange::kAhead);
  EXPECT_EQ(CopiesAndComputes(1, 700, 200).Saved(ahead), 290 * kUs) << "until 710, where the copy ends";
  EXPECT_EQ(CopiesAndComputes(3, 700, 200).Saved(ahead), (3000 - 2113) * kUs);
  EXPECT_EQ(CopiesAndComputes(1, 700, 200, Waits::kForTheDevice).Saved(ahead), (916 - 715) * kUs)
      << "a synchronization of the device waits for the copy";
}

TEST(ReplayTest, CopiesThatStayOnTheirStreamAreAsRecorded) {
  EXPECT_EQ(CopiesAndComputes(3, 700, 200).Recorded(), 3000 * kUs);
  EXPECT_EQ(CopiesAndComputes(3, 700, 200).Saved(Moved(kCopy, StreamChange::kStays)), 0);
  EXPECT_EQ(CopiesAndComputes(3, 700, 200).Saved(Moved(kDownload, StreamChange::kAhead)), 0) << "there is none";
  // The only work behind it is waited for, and so is the copy.
  EXPECT_EQ(CopiesAndComputes(1, 700, 10).Saved(Moved(kCopy, StreamChange::kAside)), 11 * kUs);
}

// An upload from 10 to 210, a kernel until 500, what it made goes to the host until 700, and another kernel until 900.
TEST(ReplayTest, CopiesOfBothDirections) {
  const auto both_ways = [] {
    StepEvents step(1000);
    step.Work(10, 210, kCopy, step.Call(0, 10, kLaunch), 0, 1);
    step.Work(211, 500, kKernel, step.Call(10, 20, kLaunch));
    step.Work(501, 700, kDownload, step.Call(20, 30, kLaunch), 0, 2);
    step.Work(701, 900, kKernel, step.Call(30, 40, kLaunch));
    step.Call(50, 905, kWait, Waits::kForItsStream, 0);
    return step.Made();
  };
  EXPECT_EQ(both_ways().Recorded(), 1000 * kUs);
  WhatIf both = Moved(kCopy, StreamChange::kAhead);
  EXPECT_EQ(both_ways().Saved(both), 193 * kUs);
  EXPECT_EQ(both_ways().Saved(Moved(kDownload, StreamChange::kAside)), 200 * kUs) << "beside the second kernel";
  both.Add(Moved(kDownload, StreamChange::kAside));
  EXPECT_EQ(both_ways().Saved(both), 393 * kUs) << "18 to 307, and both until 507";
}

// The host needs what was copied aside, though it waits for work behind it: a copy of 600 us beside a kernel of 199.
TEST(ReplayTest, TheHostWaitsForACopyAside) {
  StepEvents step(1000);
  step.Work(10, 100, kKernel, step.Call(0, 10, kLaunch));
  step.Work(101, 701, kDownload, step.Call(10, 20, kLaunch));
  step.Work(702, 901, kKernel, step.Call(20, 30, kLaunch));
  step.Call(50, 906, kWait, Waits::kForItsStream, 0);
  EXPECT_EQ(step.Made().Saved(Moved(kDownload, StreamChange::kAside)), 200 * kUs);
}

// Copies on two streams, of 300 and 600 us, at once. The kernel behind the first one comes to run from 18 to 618, and
// the host is done at 707.
TEST(ReplayTest, AnEngineHasOneCopyAtATime) {
  const auto copies = [](uint32_t other_engine) {
    StepEvents step(1000);
    step.Work(10, 310, kCopy, step.Call(0, 10, kLaunch), 0, 1);
    step.Work(311, 911, kKernel, step.Call(10, 20, kLaunch));
    step.Work(30, 630, kCopy, step.Call(20, 30, kLaunch), 1, other_engine);
    step.Call(40, 916, kWait, Waits::kForItsStream, 0);
    return step.Made();
  };
  EXPECT_EQ(copies(2).Saved(Moved(kCopy, StreamChange::kAhead)), 293 * kUs);
  EXPECT_EQ(copies(1).Saved(Moved(kCopy, StreamChange::kAhead)), 88 * kUs + kUs / 2) << "from 311.5 on";
}

// As in a loop that copies on a stream of its own, and has the kernels wait for it.
TEST(ReplayTest, WorkOfAnotherStreamWaitsForTheCopyOfTheStepBefore) {
  StepEvents step(420);
  step.Work(10, 400, kCopy, step.Call(0, 10, kLaunch), 1);
  step.Work(402, 1002, kKernel, step.Call(10, 20, kLaunch), 0);
  EXPECT_EQ(step.Made().Saved(Moved(kCopy, StreamChange::kAhead)), (1002 - 618) * kUs);
}

// Only the second step copies, for 300 us, or 1500: asked for where the first one began, it ends at 310, or 1510.
TEST(ReplayTest, ACopyThatTheStepBeforeHasNoneOf) {
  const auto second_copies = [](int64_t copy) {
    const int64_t behind = 1011 + copy;
    StepEvents steps(behind + 489);
    steps.Step(0);
    steps.Work(10, 900, kKernel, steps.Call(0, 10, kLaunch));
    steps.Call(20, 905, kWait, Waits::kForItsStream, 0);
    steps.Step(1000);
    steps.Work(1010, 1010 + copy, kCopy, steps.Call(1000, 1010, kLaunch));
    steps.Work(behind, behind + 400, kKernel, steps.Call(1010, 1020, kLaunch));
    steps.Call(1030, behind + 405, kWait, Waits::kForItsStream, 0);
    return steps.Made();
  };
  EXPECT_EQ(second_copies(300).Saved(Moved(kCopy, StreamChange::kAhead)), 293 * kUs) << "from 1018 on, not 1311";
  EXPECT_EQ(second_copies(1500).Saved(Moved(kCopy, StreamChange::kAhead)), 1000 * kUs) << "from 1511 on, not 2511";
}

// The first step brings 1500 us of bytes, until 1510, before which the kernel of the second one does not begin; that
// one brings 100 us of them.
TEST(ReplayTest, AStepWaitsForTheCopyOfTheStepBefore) {
  StepEvents steps(2800);
  steps.Step(0);
  steps.Work(10, 1510, kCopy, steps.Call(0, 10, kLaunch));
  steps.Work(1511, 1561, kKernel, steps.Call(10, 20, kLaunch));
  steps.Call(30, 1566, kWait, Waits::kForItsStream, 0);
  steps.Step(1600);
  steps.Work(1610, 1710, kCopy, steps.Call(1600, 1610, kLaunch));
  steps.Work(1711, 2711, kKernel, steps.Call(1610, 1620, kLaunch));
  steps.Call(1630, 2716, kWait, Waits::kForItsStream, 0);
  EXPECT_EQ(steps.Made().Saved(Moved(kCopy, StreamChange::kAhead)), 200 * kUs) << "from 1511 on, not 1711";
}

// Of two copies, the second one is the longer in the first step, until 1611.5.
TEST(ReplayTest, EachCopyHasItsCounterpart) {
  StepEvents steps(3000);
  steps.Step(0);
  steps.Work(10, 110, kCopy, steps.Call(0, 10, kLaunch));
  steps.Work(111, 1611, kCopy, steps.Call(10, 20, kLaunch));
  steps.Work(1612, 1662, kKernel, steps.Call(20, 30, kLaunch));
  steps.Call(30, 1667, kWait, Waits::kForItsStream, 0);
  steps.Step(1700);
  steps.Work(1710, 1810, kCopy, steps.Call(1700, 1710, kLaunch));
  steps.Work(1811, 1911, kCopy, steps.Call(1710, 1720, kLaunch));
  steps.Work(1912, 2912, kKernel, steps.Call(1720, 1730, kLaunch));
  steps.Call(1730, 2917, kWait, Waits::kForItsStream, 0);
  EXPECT_EQ(steps.Made().Saved(Moved(kCopy, StreamChange::kAhead)), 299 * kUs + kUs / 2) << "from 1612.5 on";
}

// The second step has two, which both wait for the one of the first step, until 910. They are on the bus until 1513.
TEST(ReplayTest, MoreCopiesThanTheStepBefore) {
  StepEvents steps(2000);
  steps.Step(0);
  steps.Work(10, 910, kCopy, steps.Call(0, 10, kLaunch));
  steps.Work(911, 951, kKernel, steps.Call(10, 20, kLaunch));
  steps.Call(30, 956, kWait, Waits::kForItsStream, 0);
  steps.Step(1000);
  steps.Work(1010, 1310, kCopy, steps.Call(1000, 1010, kLaunch));
  steps.Work(1311, 1611, kCopy, steps.Call(1010, 1020, kLaunch));
  steps.Work(1612, 1712, kKernel, steps.Call(1020, 1030, kLaunch));
  steps.Call(1040, 1717, kWait, Waits::kForItsStream, 0);
  EXPECT_EQ(steps.Made().Saved(Moved(kCopy, StreamChange::kAhead)), (2000 - 1513) * kUs);
}

// A call that waits for its own copy goes on to, unless it is to return.
TEST(ReplayTest, TheCallOfACopyAheadWaitsUnlessItReturns) {
  const auto pageable = [] {
    StepEvents step(1000);
    step.Work(10, 500, kCopy, step.Call(0, 505, kOtherWait, Waits::kForItsOwnWork));
    step.Work(520, 900, kKernel, step.Call(505, 515, kLaunch));
    step.Call(530, 905, kWait, Waits::kForItsStream, 0);
    return step.Made();
  };
  WhatIf ahead = Moved(kCopy, StreamChange::kAhead);
  EXPECT_EQ(pageable().Saved(ahead), 0);
  ahead.Add(Returns(kOtherWait));
  EXPECT_EQ(pageable().Saved(ahead), 495 * kUs) << "asked for at 10, not at 505";
}

TEST(ReplayTest, ChangesAddUp) {
  WhatIf all = Returns(0);
  all.Add(Gone(1));
  all.Add(Share(0, 0.5));
  all.Add(Share(0, 0.75));
  all.Add(NoGap(1));
  EXPECT_EQ(all.calls, (std::vector<CallChange>{CallChange::kReturns, CallChange::kGone}));
  all.Add(NoGap(1, 5));
  EXPECT_EQ(all.gaps, (std::vector<int64_t>{0, 1000 * kUs}));
  EXPECT_EQ(all.work, (std::vector<double>{0.5}));
  all.Add(Host(1, 0.25));
  all.Add(Host(0, 0.5));
  all.Add(Host(1, 0.75));
  EXPECT_EQ(all.host, (std::vector<double>{0.5, 0.25}));
  all.Add(Gone(0));
  all.Add(Returns(0));
  EXPECT_EQ(all.calls[0], CallChange::kGone);
  all.Add(Moved(1, StreamChange::kAhead));
  all.Add(Moved(1, StreamChange::kAside));
  EXPECT_EQ(all.streams, (std::vector<StreamChange>{StreamChange::kStays, StreamChange::kAhead}));
}

TEST(ReplayTest, NothingAtAll) {
  const Replay replay({}, 0);
  EXPECT_EQ(replay.Recorded(), 0);
  EXPECT_EQ(replay.Saved(Gone(0)), 0);
  StepEvents step(0);
  step.Work(5, 1, 7, 7);  // nonsense of a damaged trace
  const Replay nonsense = step.Made();
  EXPECT_EQ(nonsense.Saved(Share(9, 0.5)), 0);
  EXPECT_EQ(nonsense.Saved(Moved(7, StreamChange::kAhead)), 0);
}

}  // namespace
}  // namespace slipstream::advise
