// What slow steps are put down to: their facts, of a run written row by row, and what the rule says of them.

#include "tools/trace/advise/stalls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/advise/units_testing.h"
#include "tests/report/ahead_testing.h"
#include "tools/trace/advise/slow_step_facts.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::advise {
namespace {

using report::Part;
constexpr size_t kSlowStep = 7;

class StallsTest : public ::testing::Test {
 protected:
  // A hundred steps of 10 ms, of which one takes 110.
  void SetUp() override {
    report::ProcessReport& process = report_.processes.emplace_back();
    process.has_steps = true;
    process.measured_steps = 100;
    process.step_time = report::DistributionOf(std::vector<int64_t>(100, 10 * kMs));
    facts_.report = &report_;
    facts_.process = &process;
    facts_.step_times.assign(100, 10 * kMs);
    facts_.step_times[kSlowStep] = 110 * kMs;
  }
  SlowStepFacts& Slow(Part part, int64_t grew = 100 * kMs) {
    SlowStepFacts& slow = facts_.slow_steps.emplace_back();
    slow.step.number = kSlowStep;
    slow.step.time = 110 * kMs;
    slow.step.part = part;
    slow.step.grew = grew;
    slow.step.place = report::Place{
        .file = "/job/train.py", .line = 30, .function = "main", .before = part == Part::kOutside, .time = grew};
    return slow;
  }
  // What it says first.
  void Expect(std::string_view finding, std::string_view change) {
    const Verdict verdict = Stalls(facts_);
    ASSERT_EQ(verdict.kind, Verdict::Kind::kAdvice);
    EXPECT_EQ(verdict.advice.cost, kMs);
    EXPECT_EQ(verdict.advice.gains, Gains::kSlowSteps);
    EXPECT_NE(verdict.advice.finding.find(finding), std::string::npos) << verdict.advice.finding;
    EXPECT_NE((verdict.advice.change + verdict.advice.snippet).find(change), std::string::npos)
        << verdict.advice.change << verdict.advice.snippet;
  }
  bool Says(std::string_view text) {
    const Advice advice = Stalls(facts_).advice;
    return std::any_of(advice.evidence.begin(), advice.evidence.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }

  report::Report report_;
  Facts facts_;
};

TEST_F(StallsTest, WithoutACauseItNamesNone) {
  Expect("far longer than the rest.", "timeline");
  EXPECT_EQ(Stalls(facts_).advice.confidence, Confidence::kLow);
  Slow(Part::kOtherCalls);
  Expect("far longer than the rest.", "timeline");
}

TEST_F(StallsTest, MemoryOfTheDriver) {
  Slow(Part::kAllocator).function = "cudaMalloc";
  Expect("they take device memory from the driver", "[allocator]");
  EXPECT_TRUE(Says("step 7: 100 ms longer, 100 ms of it in: allocations and frees (cudaMalloc), at"));
  EXPECT_EQ(Stalls(facts_).advice.places, (std::vector<Place>{{"/job/train.py", 30, "main"}}));
}

TEST_F(StallsTest, CodeThatIsLoaded) {
  Slow(Part::kLaunches).function = "cudaLaunchKernel";
  Expect("load or compile code", "CUDA_MODULE_LOADING=EAGER");
  facts_.slow_steps.clear();
  Slow(Part::kOutside).loads = 3;
  Expect("load or compile code", "dynamic=True");
  EXPECT_TRUE(Says("3 calls that load code"));
}

TEST_F(StallsTest, TheHostOutsideCalls) {
  Slow(Part::kOutside).function = "cudaLaunchKernel";
  Expect("the host is outside CUDA calls", "gc.disable()");
  EXPECT_TRUE(Says("outside CUDA calls, before ")) << "and no function is to blame";
}

TEST_F(StallsTest, AnotherThread) {
  Slow(Part::kElsewhere);
  Expect("another thread", "other threads");
}

// A wait for kernels that take longer is theirs.
TEST_F(StallsTest, WaitsAndWhatTheyAreFor) {
  SlowStepFacts& slow = Slow(Part::kSynchronizes);
  Expect("and not for longer kernels", "nvidia-smi pmon");
  slow.kernels_grew = 49 * kMs;
  Expect("and not for longer kernels", "nvidia-smi pmon");
  slow.kernels_grew = 50 * kMs;
  Expect("more kernels run in them, or longer ones", "those steps compute");
  slow.kernels_factor = 1.8;
  Expect("more kernels run in them, or longer ones", "those steps compute");
  slow.all_kernels = true;
  Expect("all of their kernels do, by one factor", "CLOCK");
  EXPECT_TRUE(Says("1.80 times as long"));
  EXPECT_TRUE(Says("no reading of the device's clock"));
}

// A step that reads a number waits for what the steps before it have asked for: the device has work all the time.
TEST_F(StallsTest, OnlyIdleTimeIsLost) {
  Slow(Part::kSynchronizes);
  facts_.step_idle.assign(100, 2 * kMs);
  EXPECT_EQ(Stalls(facts_).kind, Verdict::Kind::kNothing);
  facts_.step_idle[kSlowStep] = 32 * kMs;
  ASSERT_EQ(Stalls(facts_).kind, Verdict::Kind::kAdvice);
  EXPECT_EQ(Stalls(facts_).advice.cost, 30 * kMs / 100);
  EXPECT_TRUE(Says("30.0 ms of that with an idle device"));
  // More kernels are no reason for idle time.
  facts_.slow_steps[0].kernels_grew = 100 * kMs;
  EXPECT_NE(Stalls(facts_).advice.finding.find("not for longer kernels"), std::string::npos);
  facts_.step_idle[kSlowStep] = 200 * kMs;  // nonsense: no more than the step is longer
  EXPECT_EQ(Stalls(facts_).advice.cost, kMs);
  EXPECT_FALSE(Says("idle device"));
  // Slower kernels are lost time of a busy device.
  facts_.step_idle[kSlowStep] = 2 * kMs;
  facts_.slow_steps[0].kernels_factor = 2;
  facts_.slow_steps[0].all_kernels = true;
  EXPECT_EQ(Stalls(facts_).advice.cost, kMs);
}

// Two smaller ones of a kind outweigh one.
TEST_F(StallsTest, WhatMostOfTheTimeWentTo) {
  Slow(Part::kAllocator, 60 * kMs);
  Slow(Part::kOutside, 40 * kMs);
  Slow(Part::kOutside, 40 * kMs).step.place = std::nullopt;
  Expect("the host is outside CUDA calls", "gc.disable()");
  EXPECT_EQ(Stalls(facts_).advice.places.size(), 1U);
  EXPECT_FALSE(Says("allocations and frees"));
}

TEST_F(StallsTest, NothingIsSlow) {
  facts_.step_times[kSlowStep] = 10 * kMs;
  Slow(Part::kAllocator);
  EXPECT_EQ(Stalls(facts_).kind, Verdict::Kind::kNothing);
}

// Where steps differ much, two of 25 ms are among them (report::IsSlow).
TEST_F(StallsTest, SlowIsWhatTheReportCallsSlow) {
  facts_.step_times[kSlowStep] = facts_.step_times[kSlowStep + 1] = 25 * kMs;
  EXPECT_EQ(Stalls(facts_).kind, Verdict::Kind::kAdvice);
  report_.processes[0].step_time.p10 = 4 * kMs;
  EXPECT_EQ(Stalls(facts_).kind, Verdict::Kind::kNothing);
}

// With more than a quarter of them slow, the loop is like that, and its steps are replayed as they are.
TEST_F(StallsTest, ManySlowStepsAreNoStalls) {
  for (size_t i = 0; i < 25; ++i) facts_.step_times[i] = 110 * kMs;
  EXPECT_EQ(Stalls(facts_).kind, Verdict::Kind::kAdvice);
  facts_.step_times[25] = 110 * kMs;
  EXPECT_EQ(Stalls(facts_).kind, Verdict::Kind::kNothing);
}

// Twenty steps of 1,000: a launch of 10 and a kernel of 400. What is done in step 16 is the test's.
class SlowStepsTest : public report::AheadTest {
 protected:
  static constexpr int64_t kAt = 15'000;
  void Steps(int64_t slow_time) {
    int64_t at = 0;
    for (int64_t i = 0; i < 20; ++i) {
      const bool slow = at == kAt;
      Step(at, at + (slow ? slow_time : 1000));
      if (!slow) Kernel(Call("cudaLaunchKernel_v7000", at + 10, at + 20), at + 20, at + 420);
      at += slow ? slow_time : 1000;
    }
  }
  SlowStepFacts Read() {
    const report::Report report = Made();
    EXPECT_EQ(report.processes.at(0).slow_steps.size(), 1U);
    trace_db::DatabaseReader reader(database_);
    const std::vector<SlowStepFacts> facts = ReadSlowSteps(&reader, report.processes.at(0));
    EXPECT_EQ(facts.size(), 1U);
    return facts.empty() ? SlowStepFacts() : facts[0];
  }
};

TEST_F(SlowStepsTest, TheFunctionThatGrewMost) {
  Steps(3000);
  Kernel(Call("cudaLaunchKernel_v7000", kAt + 10, kAt + 120), kAt + 120, kAt + 520);
  Call("cudaMalloc_v3020", kAt + 200, kAt + 1900);
  Call("cuModuleLoadData", kAt + 1900, kAt + 2000);
  Call("cuLibraryLoadData", kAt + 2000, kAt + 2050);
  const SlowStepFacts facts = Read();
  EXPECT_EQ(facts.function, "cudaMalloc");
  EXPECT_EQ(facts.function_grew, 1700);
  EXPECT_EQ(facts.loads, 2U);
  EXPECT_EQ(facts.step.part, Part::kAllocator);
  EXPECT_DOUBLE_EQ(facts.kernels_factor, 1);
  EXPECT_EQ(facts.kernels_grew, 0);
}

TEST_F(SlowStepsTest, KernelsThatTakeLonger) {
  Steps(3000);
  const int64_t launch = Call("cudaLaunchKernel_v7000", kAt + 10, kAt + 20);
  Kernel(launch, kAt + 20, kAt + 2420);
  Call("cudaDeviceSynchronize_v3020", kAt + 30, kAt + 2430);
  const SlowStepFacts facts = Read();
  EXPECT_EQ(facts.kernels_grew, 2000);
  EXPECT_DOUBLE_EQ(facts.kernels_factor, 6);
  EXPECT_TRUE(facts.all_kernels);
  EXPECT_EQ(facts.step.part, Part::kSynchronizes);
}

TEST_F(SlowStepsTest, IdleTimeOfEachStep) {
  Steps(3000);
  const int64_t launch = Call("cudaLaunchKernel_v7000", kAt + 10, kAt + 20);
  Kernel(launch, kAt + 20, kAt + 420);
  Kernel(launch, kAt + 100, kAt + 520);    // beside it
  Kernel(launch, kAt + 2800, kAt + 3100);  // into the next step
  const auto idle = [](const report::Report& report) {
    std::vector<int64_t> times;
    for (const report::Step& step : report.processes.at(0).steps) {
      if (step.use == report::StepUse::kMeasured) times.push_back(step.idle);
    }
    return times;
  };
  const report::Report report = Made();
  std::vector<int64_t> expected(report.processes.at(0).measured_steps, 600);
  ASSERT_EQ(expected.size(), 20U);
  expected[15] = 3000 - 500 - 200;
  // In the next one from 20 to 420 as well as until 100.
  expected[16] = 1000 - 420;
  EXPECT_EQ(idle(report), expected);
  report::Execute(database_,
                  "UPDATE StringIds SET value = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL' WHERE value = 'gemm'");
  trace_db::DatabaseReader reader(database_);
  const std::vector<int64_t> all = idle(report::MakeReport(&reader, {}));
  ASSERT_EQ(all.size(), 20U);
  EXPECT_EQ(all[0], 1000);
  EXPECT_EQ(all[15], 3000);
}

// Two kernels where the others have one: nothing is known of a factor.
TEST_F(SlowStepsTest, MoreKernels) {
  Steps(3000);
  const int64_t launch = Call("cudaLaunchKernel_v7000", kAt + 10, kAt + 20);
  Kernel(launch, kAt + 20, kAt + 420);
  Kernel(launch, kAt + 420, kAt + 2420);
  Call("cudaDeviceSynchronize_v3020", kAt + 30, kAt + 2430);
  const SlowStepFacts facts = Read();
  EXPECT_EQ(facts.kernels_grew, 2000);
  EXPECT_DOUBLE_EQ(facts.kernels_factor, 0);
  EXPECT_FALSE(facts.all_kernels);
}

}  // namespace
}  // namespace slipstream::advise
