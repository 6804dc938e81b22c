// What the host did not wait for, of runs whose every nanosecond is worked out by hand, and against a search of every
// single one.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/report/ahead_testing.h"
#include "tools/trace/report/host_ahead.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/stream_work.h"

namespace slipstream::report {
namespace {

// ---- a thread

struct Skip {
  HostAhead::Call call;
  std::optional<int64_t> until;
  SkippedBy by = SkippedBy::kSynchronization;
};

// Moment by moment: the call that began first has it; ahead is where some skipped wait has returned and would not have.
AheadTimes Searched(const std::vector<Skip>& calls, const std::vector<Interval>& measured) {
  AheadTimes times;
  if (calls.empty()) return times;
  int64_t last = 0;
  for (const Skip& each : calls) last = std::max(last, each.call.end);
  std::vector<const Skip*> at(static_cast<size_t>(last), nullptr);
  int64_t busy = calls.front().call.start;
  std::vector<int64_t> ahead_in(calls.size());
  for (const Skip& each : calls) {
    for (int64_t t = std::max(busy, each.call.start); t < each.call.end; ++t) at[static_cast<size_t>(t)] = &each;
    busy = std::max(busy, each.call.end);
  }
  for (int64_t t = calls.front().call.start; t < last; ++t) {
    const auto in = [&](const Interval& window) { return window.start <= t && t < window.end; };
    const auto first = std::find_if(calls.begin(), calls.end(), [&](const Skip& each) {
      return each.until && each.call.end <= t && t < *each.until;
    });
    if (first == calls.end() || std::none_of(measured.begin(), measured.end(), in)) continue;
    const Skip* const call = at[static_cast<size_t>(t)];
    if (call == nullptr || !call->call.waits) ++times.by[static_cast<size_t>(first->by)];
    if (call == nullptr) {
      ++times.went_on[kHostOutside];
    } else if (call->call.waits) {
      ++times.waited_later;
    } else {
      ++times.went_on[static_cast<size_t>(call->call.kind)];
    }
  }
  return times;
}

class HostAheadTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(HostAheadTest, IsWhatASearchFinds) {
  std::mt19937_64 random(GetParam());
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 100; ++round) {
    std::vector<Interval> measured;
    for (int64_t at = number(0, 40); at < 300 && number(0, 5) != 0;) {
      measured.push_back({at, at + number(1, 90)});
      at = measured.back().end + number(1, 30);
    }
    HostAhead ahead(&measured);
    std::vector<Skip> calls;
    int64_t start = number(0, 20);
    for (int64_t i = number(0, 25); i > 0; --i) {
      Skip& next = calls.emplace_back();
      next.call = {.start = start,
                   .end = start + number(0, 20),
                   .kind = static_cast<CallKind>(number(0, kCallKinds - 1)),
                   .waits = number(0, 2) == 0};
      ahead.Add(next.call);
      if (number(0, 2) == 0) {
        next.until = number(0, 400);
        next.by = static_cast<SkippedBy>(number(0, kSkippedBy - 1));
        ahead.Skipped(*next.until, next.by);
      }
      // A call behind this one, or now and then one inside it, which skips nothing.
      if (number(0, 3) == 0 && next.call.end > next.call.start + 1) {
        Skip inner;
        inner.call = {.start = number(next.call.start + 1, next.call.end - 1), .end = next.call.end};
        inner.call.end = number(inner.call.start, next.call.end);
        ahead.Add(inner.call);
      }
      start = next.call.end + number(0, 15);
    }
    const AheadTimes expected = Searched(calls, measured);
    EXPECT_EQ(ahead.times().went_on, expected.went_on);
    EXPECT_EQ(ahead.times().by, expected.by);
    EXPECT_EQ(ahead.times().waited_later, expected.waited_later);
    EXPECT_EQ(ahead.times().added, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostAheadTest, ::testing::Range(0U, 20U));

// 40 ns of waiting in a query: 25 of them while the thread was ahead, which it would have waited for sooner.
TEST(HostAheadCallTest, WhatSlipstreamAddsIsWhatWouldNotHaveBeenWaitedFor) {
  const std::vector<Interval> measured = {{0, 1000},    {1100, 1110}, {1120, 1130},
                                          {1140, 1150}, {1160, 1170}, {2000, 3000}};
  HostAhead ahead(&measured);
  ahead.Add({.start = 100, .end = 110, .kind = CallKind::kSynchronize, .waits = true});
  ahead.Skipped(175);
  ahead.Add({.start = 150, .end = 200, .waits = true, .lost = 40});
  EXPECT_EQ(ahead.times().went_on[kHostOutside], 40);
  EXPECT_EQ(ahead.times().waited_later, 25);
  EXPECT_EQ(ahead.times().added, 15);
  EXPECT_EQ(ahead.times().net(), 25);
  // Outside of the measured time, none.
  ahead.Add({.start = 1500, .end = 1600, .waits = true, .lost = 40});
  EXPECT_EQ(ahead.times().added, 15);
}

// ---- streams

TEST(StreamWorkTest, AHandleIsAStream) {
  StreamWork work;
  EXPECT_EQ(work.Until({5, 1}), std::nullopt) << "never heard of";
  work.Add({1, 17}, 100);
  EXPECT_EQ(work.Until({5, 1}), std::nullopt) << "nobody said that 5 is 17";
  work.Is({5, 1}, {1, 17});
  EXPECT_EQ(work.Until({5, 1}), 100);
  EXPECT_EQ(work.Until({5, 2}), 100) << "whoever asks";
  work.Add({1, 17}, 60);
  EXPECT_EQ(work.Until({5, 1}), 100) << "the last of them";
  work.Add({1, 18}, 900);
  work.Add({2, 17}, 900);
  EXPECT_EQ(work.Until({5, 1}), 100) << "others are others";
  work.AddFor({5, 3}, 130);
  EXPECT_EQ(work.Until({5, 1}), 130) << "a graph's";
}

TEST(StreamWorkTest, AHandleThatMeansTwoStreamsIsNotBelieved) {
  StreamWork work;
  work.Is({5, 1}, {1, 17});
  work.Add({1, 17}, 100);
  work.Is({5, 1}, {1, 18});
  EXPECT_EQ(work.Until({5, 1}), std::nullopt);
  work.Destroyed({5, 1});
  EXPECT_EQ(work.Until({5, 1}), std::nullopt);
  work.Is({5, 1}, {1, 19});
  work.Add({1, 19}, 50);
  EXPECT_EQ(work.Until({5, 1}), 50);
}

TEST(StreamWorkTest, DefaultStreams) {
  StreamWork work;
  work.Is({0, 1}, {1, 7});
  work.Add({1, 7}, 100);
  EXPECT_EQ(work.Until({1, 9}), 100) << "cudaStreamLegacy is 0";
  work.Is({2, 1}, {1, 14});
  work.Is({2, 9}, {1, 15});
  work.Add({1, 14}, 200);
  work.Add({1, 15}, 300);
  EXPECT_EQ(work.Until({2, 1}), 200) << "cudaStreamPerThread is each thread's own";
  EXPECT_EQ(work.Until({2, 9}), 300);
  EXPECT_EQ(work.Until({2, 4}), std::nullopt);
  work.Is({5, 1}, {1, 17});
  work.Add({1, 17}, 400);
  work.SeveralContexts();
  EXPECT_EQ(work.Until({0, 1}), std::nullopt) << "of which device?";
  EXPECT_EQ(work.Until({2, 1}), std::nullopt);
  EXPECT_EQ(work.Until({5, 1}), 400);
}

// ---- a run

// The synchronization returned at 45 and would not have before 550: 505 ns, of which a launch from 100 to 110 is 10.
TEST_F(AheadTest, ASkippedSynchronizationBehindWork) {
  Promoted();
  Kernel(Call("cudaLaunchKernel_v7000", 100, 110), 550, 2000);  // asked for later: not waited for
  Call("cudaEventRecord", 700, 710);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 1U);
  EXPECT_EQ(ahead.behind_work, 1U);
  EXPECT_EQ(ahead.stream_unknown, 0U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 505);
  EXPECT_EQ(ahead.step_thread.went_on[static_cast<size_t>(CallKind::kLaunch)], 10);
  EXPECT_EQ(ahead.step_thread.went_on[kHostOutside], 495);
  EXPECT_EQ(ahead.step_thread.waited_later, 0);
  EXPECT_EQ(ahead.other_threads.all_went_on(), 0);
}

// All of it had run when the synchronization returned.
TEST_F(AheadTest, AnIdleStream) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 12), 12, 20);
  Copy(Call("cudaMemcpyAsync_v3020", 30, 40, {.decision = "transfer.h2d.promoted.small"}), 35, 42);
  Call("cudaStreamSynchronize_v3020", 40, 45, {.decision = kSkippedName});
  Call("cudaEventRecord", 700, 710);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 1U);
  EXPECT_EQ(ahead.behind_work, 0U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 0);
  EXPECT_EQ(ahead.step_thread.waited_later, 0);
}

// The second one, from 200 to 205, waits for the same work: what counts is still 45 to 550, less the 5 ns that the host
// was in that synchronization, which might have waited.
TEST_F(AheadTest, TwoBehindTheSameKernelAreOneWait) {
  Promoted();
  Call("cudaStreamSynchronize_v3020", 200, 205, {.decision = "transfer.sync.skipped.rest"});
  Call("cudaEventRecord", 700, 710);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 2U);
  EXPECT_EQ(ahead.behind_work, 2U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 500);
  EXPECT_EQ(ahead.step_thread.waited_later, 5);
}

// The program's own wait comes at 300: the host had gone on for 255 ns, and waits for the other 250 now.
TEST_F(AheadTest, WhatIsWaitedForLaterIsNotGained) {
  Promoted();
  Call("cudaDeviceSynchronize_v3020", 300, 560);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.step_thread.all_went_on(), 255);
  EXPECT_EQ(ahead.step_thread.waited_later, 250);
}

// Nor is time in a free, or in a copy that was left to the program; a promoted copy is host work.
TEST_F(AheadTest, CallsThatMayWait) {
  Promoted();
  Call("cudaFree_v3020", 100, 120);
  Call("cudaMemcpyAsync_v3020", 200, 230, {.decision = "transfer.h2d.declined.full"});
  Call("cudaMemcpyAsync_v3020", 300, 307, {.decision = "transfer.h2d.promoted.large"});
  Call("cudaEventQuery_v3020", 400, 402);
  Call("cudaEventRecord", 700, 710);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.step_thread.waited_later, 50);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 455);
  EXPECT_EQ(ahead.step_thread.went_on[static_cast<size_t>(CallKind::kCopy)], 7);
  EXPECT_EQ(ahead.step_thread.went_on[static_cast<size_t>(CallKind::kOther)], 2);
}

// A query from 400 on was made to wait 160 ns for what was owed, to 560: 150 of them the host would have waited before,
// and 10 are slipstream's. A query behind it lost another 30 for nothing.
TEST_F(AheadTest, WhatSlipstreamMadeTheHostWait) {
  Promoted();
  Call("cudaEventQuery_v3020", 400, 560, {.decision = "transfer.sync.settled.query", .saved = -160});
  Call("cudaEventQuery_v3020", 600, 640, {.decision = "transfer.sync.settled.query", .saved = -30});
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.step_thread.all_went_on(), 355);
  EXPECT_EQ(ahead.step_thread.waited_later, 150);
  EXPECT_EQ(ahead.step_thread.added, 40);
  EXPECT_EQ(ahead.step_thread.net(), 315);
}

TEST_F(AheadTest, WorkOfAnotherStreamDoesNotCount) {
  Promoted();
  Kernel(Call("cudaLaunchKernel_v7000", 1, 3, {.stream = 6000}), 3, 900, {.number = 18});
  Call("cudaEventRecord", 950, 960);
  EXPECT_EQ(Ahead().step_thread.all_went_on(), 505);
}

// Of a library whose calls no hook sees the stream is CUPTI's number alone; work without any call was asked for when it
// began at the latest.
TEST_F(AheadTest, WorkPastEveryHook) {
  Promoted();
  Kernel(Call("cuLaunchKernel", 25, 28, {.driver = true}), 500, 580);
  Kernel(99, 44, 600);  // before the synchronization returns, but not before it begins
  Kernel(99, 39, 590);
  Call("cudaEventRecord", 950, 960);
  EXPECT_EQ(Ahead().step_thread.all_went_on(), 590 - 45);
}

TEST_F(AheadTest, WorkOfAGraphIsOnTheStreamOfItsLaunch) {
  Promoted();
  Kernel(Call("cudaGraphLaunch_v10000", 22, 25), 100, 620, {.number = 31, .graph = true});
  // On another one, by whatever number CUPTI has its branches.
  Kernel(Call("cudaGraphLaunch_v10000", 26, 28, {.stream = 6000}), 100, 680, {.graph = true});
  Call("cudaEventRecord", 950, 960);
  EXPECT_EQ(Ahead().step_thread.all_went_on(), 620 - 45);
}

// A copy that went ahead crossed the bus on slipstream's stream 40, which says nothing about the program's stream.
TEST_F(AheadTest, StreamsOfSlipstreamsOwn) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 20), 20, 500);
  Copy(Call("cudaMemcpyAsync_v3020", 30, 40, {.decision = "transfer.h2d.promoted.large", .bytes = 4 << 20}), 31, 800,
       {.number = 40});
  Copy(Call("cuMemcpyDtoDAsync_v2", 38, 39, {.driver = true}), 500, 510);
  Call("cudaStreamSynchronize_v3020", 40, 45, {.decision = kSkippedName});
  Call("cudaEventRecord", 950, 960);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.stream_unknown, 0U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 510 - 45);
}

TEST_F(AheadTest, AStreamThatNobodyKnows) {
  Copy(Call("cudaMemcpyAsync_v3020", 30, 40, {.decision = "transfer.h2d.promoted.large", .bytes = 4 << 20}), 31, 800);
  Call("cudaStreamSynchronize_v3020", 40, 45, {.decision = kSkippedName});
  Call("cudaEventRecord", 950, 960);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 1U);
  EXPECT_EQ(ahead.stream_unknown, 1U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 0);
  EXPECT_NE(Screen(report_).find("of 1 wait the stream is not known"), std::string::npos);
}

// The stream was destroyed, and its handle is another one's now.
TEST_F(AheadTest, AHandleThatCameBack) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 20), 20, 500);
  Call("cudaStreamDestroy_v5050", 25, 28);
  Call("cudaStreamSynchronize_v3020", 40, 45, {.decision = kSkippedName});
  Kernel(Call("cudaLaunchKernel_v7000", 50, 60), 60, 90, {.number = 23});
  Call("cudaStreamSynchronize_v3020", 70, 75, {.decision = kSkippedName});
  Call("cudaEventRecord", 950, 960);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.stream_unknown, 1U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 90 - 75);
}

// A cudaMemcpy of more than 64 KiB waits for its stream before it begins; its own copy, to 900, it need not wait for. A
// smaller one may return at once.
TEST_F(AheadTest, ABlockingCopy) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 20, {.stream = 0}), 20, 500, {.number = 7});
  Call("cudaMemcpy_v3020", 30, 40, {.stream = 0, .decision = "transfer.h2d.promoted.small", .bytes = 65536});
  Copy(Call("cudaMemcpy_v3020", 100, 130, {.stream = 0, .decision = "transfer.h2d.promoted.large", .bytes = 65537}),
       500, 900, {.number = 7});
  // A graph that no hook saw launched may be on any stream.
  Kernel(Call("cuGraphLaunch", 95, 97, {.driver = true}), 100, 800, {.number = 31, .graph = true});
  Call("cudaEventRecord", 950, 960);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 1U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 500 - 130);
}

// An asynchronous copy alone, or a synchronization that was made, is no wait that was skipped.
TEST_F(AheadTest, WhatIsNoSkippedWait) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 20), 20, 500);
  Call("cudaMemcpyAsync_v3020", 30, 40, {.decision = "transfer.h2d.promoted.large", .bytes = 1 << 20});
  Call("cudaMemcpy_v3020", 50, 60, {.decision = "transfer.h2d.declined.full", .bytes = 1 << 20});
  Call("cudaStreamSynchronize_v3020", 70, 80, {.decision = "transfer.sync.kept.mapped"});
  Call("cudaEventRecord", 950, 960);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 0U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 0);
}

// Of 505 ns from 45 on, what lies in a step: 45 to 100 and 200 to 300. The next call, at 700, is in none.
TEST_F(AheadTest, OnlyTheMeasuredTimeCounts) {
  Step(0, 100);
  Step(200, 300);
  Promoted();
  Call("cudaEventRecord", 700, 710);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.skipped, 1U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 55 + 100);
  const auto json = nlohmann::json::parse(ReportJson(report_, false))["processes"][0]["ahead"];
  EXPECT_EQ(json["step_thread"]["went_on_ns"], 155);
  EXPECT_EQ(json["step_thread"]["went_on_per_step_ns"], 77.5);
  EXPECT_EQ(json["step_thread"]["went_on_ns_while_host_in"]["outside_of_calls"], 155);
}

// Of two steps, devices were recorded in the second one only.
TEST_F(AheadTest, StepsInWhichDevicesWereNotRecordedAreLeftOut) {
  Step(0, 400);
  Step(400, 1000);
  Period(390, 1'000'000);
  Promoted();
  Call("cudaEventRecord", 700, 710);
  const AheadReport ahead = Ahead();
  EXPECT_EQ(report_.processes[0].unwatched_steps, 1U);
  EXPECT_EQ(ahead.skipped, 0U) << "it is not of the measured time";
  EXPECT_EQ(ahead.step_thread.all_went_on(), 150);
}

// Ten say what a recording of the devices costs, nine do not.
TEST_F(AheadTest, HowLongStepsAreWithoutARecordingOfTheDevices) {
  for (int64_t i = 0; i < 10; ++i) Step(10 + 30 * i, 40 + 30 * i + i / 9 * 5);
  Step(400, 1000);
  Period(390, 1'000'000);
  Promoted();
  report_ = Made();
  EXPECT_EQ(report_.processes[0].step_time_before_devices.max, 35);
  EXPECT_NE(Screen(report_).find(
                "10 steps in which devices were not recorded, left out (in the median 30 ns before they first were)"),
            std::string::npos)
      << Screen(report_);
  const auto json = nlohmann::json::parse(ReportJson(report_, false))["processes"][0]["steps"];
  EXPECT_EQ(json["time_before_devices_were_recorded"]["median_ns"], 30);
}

TEST_F(AheadTest, TooFewStepsWithoutARecordingOfTheDevices) {
  for (int64_t i = 0; i < 9; ++i) Step(10 + 30 * i, 40 + 30 * i);
  Step(400, 1000);
  Period(390, 1'000'000);
  Promoted();
  report_ = Made();
  EXPECT_EQ(report_.processes[0].step_time_before_devices.count, 9U);
  EXPECT_NE(Screen(report_).find("9 steps in which devices were not recorded, left out"), std::string::npos);
  EXPECT_EQ(Screen(report_).find("before they first were"), std::string::npos) << Screen(report_);
}

TEST_F(AheadTest, WhereNoStepHasItsDevicesNothingIsSaid) {
  Step(0, 400);
  Step(400, 1000);
  Period(390, 410);
  Promoted();
  report_ = Made();
  EXPECT_FALSE(report_.processes[0].ahead.has_value());
  EXPECT_NE(Screen(report_).find("what was gained is not known: devices were recorded in no step"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(ReportJson(report_, false))["processes"][0]["ahead"].is_null());
}

// Another thread's waits are its own: the step thread's calls from 100 on are neither ahead nor behind them.
TEST_F(AheadTest, EachThreadByItself) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 20), 20, 500);
  Call("cudaStreamSynchronize_v3020", 40, 45, {.decision = kSkippedName, .thread = kOther});
  Call("cudaEventRecord", 100, 300);
  Call("cudaEventRecord", 410, 420, {.thread = kOther});
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.step_thread.all_went_on(), 0);
  EXPECT_EQ(ahead.other_threads.all_went_on(), 420 - 45);
  EXPECT_NE(Screen(report_).find("other threads went on for 375 ns"), std::string::npos) << Screen(report_);
}

TEST_F(AheadTest, DefaultStreamsOfTwoDevicesAreNotToldApart) {
  Kernel(Call("cudaLaunchKernel_v7000", 10, 20, {.stream = 0}), 20, 500, {.number = 7});
  Call("cudaMemcpy_v3020", 30, 40, {.stream = 0, .decision = "transfer.h2d.promoted.large", .bytes = 1 << 20});
  Kernel(Call("cudaLaunchKernel_v7000", 600, 610, {.stream = 6000}), 610, 620, {.number = 8, .context = 2});
  const AheadReport ahead = Ahead();
  EXPECT_EQ(ahead.stream_unknown, 1U);
  EXPECT_EQ(ahead.step_thread.all_went_on(), 0);
}

TEST_F(AheadTest, TheScreenSaysIt) {
  Promoted();
  Call("cudaDeviceSynchronize_v3020", 300, 560);
  const Report report = Made();
  const std::string text = Screen(report);
  EXPECT_NE(text.find("the host went on for 255 ns a step while work was still running"), std::string::npos) << text;
  EXPECT_NE(text.find("(1 of 1 skipped wait)"), std::string::npos) << text;
  EXPECT_NE(text.find("for another 250 ns it waited in a later call"), std::string::npos) << text;
}

// ---- the pool

// Served: 3, 5 and 7 ns; by the driver: 1000, 90, 80 and 70 ns, of which the lower middle one is 80. A call that failed
// and one of cudaMallocAsync are neither.
TEST_F(AheadTest, TheCallsOfThePoolAndThoseOfTheDriver) {
  int64_t at = 10;
  const auto call = [&](const char* function, int64_t time, const char* decision, int status = 0) {
    Call(function, at, at + time, {.decision = decision, .status = status});
    at += time + 1;
  };
  call("cudaMalloc_v3020", 1000, "allocator.grown");
  call("cudaMalloc_v3020", 7, "allocator.reused");
  call("cudaMalloc_v3020", 90, "allocator.grown");
  call("cudaMalloc_v3020", 3, "allocator.reused.behind");
  call("cudaMalloc_v3020", 70, "allocator.passed.memory");
  call("cudaMalloc_v3020", 80, "allocator.grown");
  call("cudaMalloc_v3020", 5, "allocator.reused");
  call("cudaMalloc_v3020", 900, "allocator.grown", 2);
  call("cudaMallocAsync_v11020", 900, "allocator.grown");
  call("cudaFree_v3020", 2, "allocator.parked");
  const Report report = Made();
  const ProcessReport& process = report.processes[0];
  EXPECT_EQ(process.allocations.served, 3U);
  EXPECT_EQ(process.allocations.served_time, 15);
  EXPECT_EQ(process.allocations.served_median, 5);
  EXPECT_EQ(process.allocations.real, 4U);
  EXPECT_EQ(process.allocations.real_time, 1240);
  EXPECT_EQ(process.allocations.real_median, 80);
  EXPECT_EQ(process.frees.served, 1U);
  EXPECT_EQ(process.frees.real, 0U);
  const std::string text = Screen(report);
  EXPECT_NE(
      text.find(
          "pool: 3 calls of cudaMalloc served in 15 ns (median 5 ns); 4 in this run reached the driver, median 80 ns"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("pool: 1 call of cudaFree kept in 2 ns (median 2 ns); none of this run reached the driver"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(ReportJson(report, false))["processes"][0]["pool_calls"];
  EXPECT_EQ(json["cudaMalloc"]["driver_median_ns"], 80);
  EXPECT_TRUE(json["cudaFree"]["driver_median_ns"].is_null());
}

}  // namespace
}  // namespace slipstream::report
