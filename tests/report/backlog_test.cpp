// Steps of a host that runs ahead of its device, against a queue whose every nanosecond is known.

#include "tools/trace/report/backlog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/report/ahead_testing.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/verdict.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::report {
namespace {

struct Loop {
  size_t steps = 40;
  int64_t host = 10'000;                              // to launch the step's kernels
  int64_t device = 25'000;                            // for them to run
  size_t depth = std::numeric_limits<size_t>::max();  // kernels that have been launched and not ended, at most
  size_t wait_every = 0;                              // 0: the host never waits
};
constexpr size_t kKernelsOfAStep = 5;

class BacklogTest : public AheadTest {
 protected:
  // A kernel begins when it is launched and the one before it has ended. A launch into a full queue waits in the call.
  ProcessReport Run(const Loop& loop) {
    int64_t now = 0;
    int64_t busy = 0;
    std::vector<int64_t> ends;
    for (size_t i = 0; i < loop.steps; ++i) {
      const int64_t begin = now;
      for (size_t k = 0; k < kKernelsOfAStep; ++k) {
        const int64_t room = ends.size() >= loop.depth ? ends[ends.size() - loop.depth] : 0;
        const int64_t launched = std::max(now + 100, room);
        const int64_t start = std::max(launched, busy);
        busy = start + loop.device / static_cast<int64_t>(kKernelsOfAStep);
        ends.push_back(busy);
        Kernel(Call("cudaLaunchKernel_v7000", now, launched), start, busy);
        now = std::max(now + loop.host / static_cast<int64_t>(kKernelsOfAStep), launched);
      }
      if (loop.wait_every != 0 && (i + 1) % loop.wait_every == 0) {
        const int64_t until = std::max(now + 100, busy);
        Call("cudaStreamSynchronize_v3020", now, until);
        now = until;
      }
      Step(begin, now);
    }
    Period(0, std::max(busy, now) + 1000);
    report_ = Made();
    return report_.processes.at(0);
  }
  static std::string Uses(const ProcessReport& process) {
    std::string uses;
    for (const auto& step : process.steps) uses += "mwdueA"[static_cast<size_t>(step.use)];
    return uses;
  }
};

TEST_F(BacklogTest, WhereItGrowsInAllStepsTheirWorkIsTheirTime) {
  const ProcessReport process = Run({});
  EXPECT_TRUE(process.ran_ahead);
  EXPECT_EQ(Uses(process), std::string(40, 'm'));
  EXPECT_EQ(process.step_time.mean(), 10'000);
  EXPECT_EQ(process.work_time.median, 25'000);
  EXPECT_NEAR(process.work_time.mean(), 25'000, 250);
  const std::string screen = Screen(report_);
  EXPECT_NE(screen.find("THE HOST RAN AHEAD of the devices in all of them: a step takes 25.0 us"), std::string::npos)
      << screen;
  EXPECT_NE(screen.find("a step on the host"), std::string::npos) << screen;
  const auto verdict = VerdictOf(report_);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->kind, VerdictKind::kGpuBound);
  EXPECT_NEAR(verdict->per_step, process.work_time.mean(), 0.03 * process.work_time.mean())
      << "of the device's step, not of the host's";
  EXPECT_NE(VerdictSentence(report_, *verdict).find("of a step of 25.0 us"), std::string::npos);
  const auto steps = nlohmann::json::parse(ReportJson(report_, false)).at("processes").at(0).at("steps");
  EXPECT_TRUE(steps.at("all_have_host_running_ahead").get<bool>());
  EXPECT_EQ(steps.at("work_time").at("median_ns").get<int64_t>(), 25'000);
  EXPECT_EQ(steps.at("steps").at(39).at("work_time_ns").get<int64_t>(), 25'000);
}

TEST_F(BacklogTest, StepsInWhichTheQueueFillsAreLeftOut) {
  const ProcessReport process = Run({.depth = 30});
  EXPECT_FALSE(process.ran_ahead);
  EXPECT_GE(process.ahead_steps, 5U);
  EXPECT_LE(process.ahead_steps, 10U);
  EXPECT_EQ(Uses(process), std::string(process.ahead_steps, 'A') + std::string(40 - process.ahead_steps, 'm'));
  EXPECT_NEAR(process.step_time.mean(), 25'000, 1'250);
  EXPECT_EQ(process.step_time.median, 25'000);
  EXPECT_NE(Screen(report_).find("steps in which the host ran ahead of the devices, left out"), std::string::npos);
  int64_t wall = 0;
  for (const WallPartReport& part : process.wall.parts) wall += part.time;
  EXPECT_EQ(wall, process.wall.end - process.wall.begin);
}

TEST_F(BacklogTest, AHostThatWaitsInEachStepIsNotAhead) {
  const ProcessReport process = Run({.wait_every = 1});
  EXPECT_FALSE(process.ran_ahead);
  EXPECT_EQ(process.ahead_steps, 0U);
  EXPECT_EQ(process.steps.at(20).backlog, 0);
  EXPECT_EQ(process.steps.at(20).work_time, process.steps.at(20).time());
  EXPECT_EQ(Screen(report_).find("AHEAD"), std::string::npos);
}

TEST_F(BacklogTest, NorIsOneThatWaitsEveryTenSteps) {
  const ProcessReport process = Run({.wait_every = 10});
  EXPECT_FALSE(process.ran_ahead);
  EXPECT_EQ(process.ahead_steps, 0U);
  EXPECT_NEAR(process.step_time.mean(), 25'010, 1) << "25 us of kernels, and of ten steps one first launch";
}

TEST_F(BacklogTest, WhereTheRunEndsAheadTheTimeUpToTheLastWaitCounts) {
  // 35 steps: waits after 10, 20 and 30.
  const ProcessReport process = Run({.steps = 35, .wait_every = 10});
  EXPECT_FALSE(process.ran_ahead);
  EXPECT_NEAR(process.step_time.mean(), 25'010, 1'250);
}

TEST_F(BacklogTest, AHostThatIsSlowerThanItsDeviceIsNotAhead) {
  const ProcessReport process = Run({.device = 8'000});
  EXPECT_FALSE(process.ran_ahead);
  EXPECT_EQ(process.ahead_steps, 0U);
  EXPECT_EQ(process.step_time.mean(), 10'000);
}

TEST_F(BacklogTest, AKernelThatRunsForAllOfTheProgramIsNoBacklog) {
  Kernel(Call("cudaLaunchKernel_v7000", 0, 10), 20, 900'000, {.number = kNumber + 1});
  const ProcessReport process = Run({.device = 8'000});
  EXPECT_FALSE(process.ran_ahead);
  EXPECT_EQ(process.ahead_steps, 0U);
}

// ---- where nothing is known of the devices

class NoDevicesTest : public AheadTest {
 protected:
  // Ten steps of 10 us on the host, whose last call is a launch, and a wait.
  ProcessReport Run(int64_t wait, const CallOptions& options = {}, const char* function = "cudaDeviceSynchronize_v3020",
                    int64_t at = 100'000) {
    for (int64_t i = 0; i < 10; ++i) {
      Call("cudaLaunchKernel_v7000", i * 10'000, i * 10'000 + 100);
      Step(i * 10'000, (i + 1) * 10'000);
    }
    Call(function, at, at + wait, options);
    NoPeriod();
    report_ = Made();
    return report_.processes.at(0);
  }
};

TEST_F(NoDevicesTest, TheWaitAfterTheStepsIsPartOfThem) {
  const ProcessReport process = Run(150'000);
  EXPECT_TRUE(process.ran_ahead);
  EXPECT_EQ(process.waited_after, 150'000);
  EXPECT_EQ(process.step_time.mean(), 10'000);
  EXPECT_EQ(process.pace_of_work().mean(), 25'000);
  EXPECT_EQ(process.TimeOf(process.steps.at(3)), 25'000);
  const std::string screen = Screen(report_);
  EXPECT_NE(
      screen.find("THE HOST RAN AHEAD of the devices: after these steps it waited 150 us for them, and with that a "
                  "step takes about 25.0 us"),
      std::string::npos)
      << screen;
  EXPECT_NE(screen.find("of 10.0 us that a step takes on the host the longest part"), std::string::npos) << screen;
}

TEST_F(NoDevicesTest, ATwentiethIsNoMatter) {
  EXPECT_FALSE(Run(5'000).ran_ahead);
  EXPECT_EQ(report_.processes.at(0).waited_after, std::nullopt);
}

TEST_F(NoDevicesTest, AWaitThatSlipstreamSkippedTellsNothing) {
  EXPECT_FALSE(Run(150'000, {.decision = kSkippedName}, "cudaStreamSynchronize_v3020").ran_ahead);
}

TEST_F(NoDevicesTest, NorDoesAnotherThreads) { EXPECT_FALSE(Run(150'000, {.thread = kOther}).ran_ahead); }

// An evaluation, whose work is waited for.
TEST_F(NoDevicesTest, NorDoesOneAfterManyOtherLaunches) {
  for (int64_t i = 0; i < 9; ++i) Call("cudaLaunchKernel_v7000", 100'000 + i * 10, 100'000 + i * 10 + 5);
  EXPECT_FALSE(Run(150'000, {}, "cudaDeviceSynchronize_v3020", 100'100).ran_ahead);
}

TEST_F(NoDevicesTest, NorACallThatDoesNotWait) { EXPECT_FALSE(Run(150'000, {}, "cudaMemcpyAsync_v3020").ran_ahead); }

// ---- the choice by itself

std::vector<report::Step> Steps(const std::vector<std::pair<int64_t, int64_t>>& times_and_backlogs) {
  std::vector<report::Step> steps;
  int64_t at = 0;
  for (const auto& [time, backlog] : times_and_backlogs) {
    steps.push_back({.start = at, .end = at + time, .backlog = backlog});
    at += time;
  }
  return steps;
}

TEST(ChooseByBacklogTest, ABacklogThatStaysIsNoMatter) {
  std::vector<report::Step> steps = Steps({{10, 70}, {10, 70}, {10, 70}, {10, 70}, {10, 70}, {10, 70}});
  steps[0].use = StepUse::kWarmUp;
  EXPECT_TRUE(ChooseByBacklog(&steps));
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].use, StepUse::kMeasured);
    EXPECT_EQ(steps[i].work_time, 10);
  }
}

TEST(ChooseByBacklogTest, WhereItShrinksTheHostIsTheSlowerOne) {
  std::vector<report::Step> steps =
      Steps({{10, 1000}, {60, 950}, {60, 900}, {60, 850}, {60, 800}, {60, 750}, {60, 700}});
  steps[0].use = StepUse::kWarmUp;
  EXPECT_TRUE(ChooseByBacklog(&steps));
  EXPECT_EQ(steps[1].use, StepUse::kMeasured);
  EXPECT_EQ(steps[1].work_time, 10);
}

TEST(ChooseByBacklogTest, WhereItGrowsAtFirstTheRestIsKept) {
  std::vector<report::Step> steps =
      Steps({{10, 20}, {10, 40}, {10, 60}, {30, 60}, {30, 60}, {30, 60}, {30, 60}, {30, 60}, {30, 60}, {30, 60}});
  EXPECT_TRUE(ChooseByBacklog(&steps));
  EXPECT_EQ(steps[2].use, StepUse::kAhead);
  EXPECT_EQ(steps[2].work_time, 30);
  EXPECT_EQ(steps[3].use, StepUse::kMeasured);
}

TEST(ChooseByBacklogTest, AfterAPauseTheDeviceMayHaveBeenIdle) {
  std::vector<report::Step> steps = Steps({{10, 5}, {10, 5}});
  steps[1].start += 100;
  steps[1].end += 100;
  EXPECT_TRUE(steps[0].backlog == 5 && !ChooseByBacklog(&steps));
  EXPECT_EQ(steps[1].work_time, 15) << "from its own start";
}

TEST(ChooseByBacklogTest, TooFewThatAreSteadyAreNone) {
  std::vector<report::Step> steps = Steps({{10, 10}, {10, 20}, {10, 30}, {10, 40}, {20, 40}, {20, 40}, {20, 40}});
  EXPECT_FALSE(ChooseByBacklog(&steps));
  for (const report::Step& step : steps) EXPECT_EQ(step.use, StepUse::kMeasured);
}

}  // namespace
}  // namespace slipstream::report
