// What slipstream gained, of runs whose every nanosecond is worked out by hand.

#include "tools/trace/report/gains.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/report/ahead_testing.h"
#include "tools/trace/report/json.h"

namespace slipstream::report {
namespace {

class GainsTest : public AheadTest {
 protected:
  const ProcessReport& MadeProcess() {
    report_ = Made();
    return report_.processes.at(0);
  }
  const GainRow& Row(GainKind kind) const { return report_.processes.at(0).gains.Of(kind); }

  // One call behind the other.
  int64_t Next(const char* function, int64_t time, const std::string& decision, int64_t bytes, int status = 0) {
    at_ += time + 1;
    return Call(function, at_ - time - 1, at_ - 1, {.decision = decision, .bytes = bytes, .status = status});
  }
  int64_t at_ = 10;

  // Promoted(), and behind it a kernel from 550 to 800 and a promoted cudaMemcpy, which would have waited for that.
  void OverlappingWaits() {
    Promoted();
    Kernel(Call("cudaLaunchKernel_v7000", 60, 70), 550, 800);
    Copy(Call("cudaMemcpy_v3020", 100, 110, {.decision = "transfer.h2d.promoted.large", .bytes = kMiB}), 800, 820);
    Call("cudaEventRecord", 900, 910);
  }
};

// The synchronization would have waited from 45 to 550, the copy from 110 to 800: up to 550 the host would have been in
// the synchronization still.
TEST_F(GainsTest, AMomentOfTwoWaitsIsPutDownToTheFirst) {
  OverlappingWaits();
  const ProcessReport& process = MadeProcess();
  EXPECT_EQ(Row(GainKind::kSynchronizations).measured, 505);
  EXPECT_EQ(Row(GainKind::kCopiesToDevice).measured, 250);
  EXPECT_EQ(process.gains.measured, 755);
  ASSERT_TRUE(process.ahead.has_value());
  EXPECT_EQ(process.gains.measured, process.ahead->step_thread.all_went_on());
  EXPECT_EQ(Row(GainKind::kSynchronizations).calls, 1U);
  EXPECT_EQ(Row(GainKind::kCopiesToDevice).calls, 2U) << "an asynchronous one, too";
  EXPECT_EQ(process.gains.estimated, std::nullopt);
  EXPECT_NE(Row(GainKind::kCopiesToDevice).not_known.find("fewer than 3 calls"), std::string::npos);
}

// The second one returns at 205 and waits for the same kernel: 45 to 550, less the 5 ns in it.
TEST_F(GainsTest, TwoSynchronizationsBehindTheSameWorkAreOneWait) {
  Promoted();
  Call("cudaStreamSynchronize_v3020", 200, 205, {.decision = "transfer.sync.skipped.rest"});
  Call("cudaEventRecord", 700, 710);
  const ProcessReport& process = MadeProcess();
  EXPECT_EQ(Row(GainKind::kSynchronizations).calls, 2U);
  EXPECT_EQ(Row(GainKind::kSynchronizations).measured, 500);
  EXPECT_EQ(process.gains.measured, 500);
}

// Of 160 ns in a query at 400 the host would have waited 150 before; another query lost 30. It went on from 45 to 400.
TEST_F(GainsTest, WhatWasLostIsTakenOff) {
  Promoted();
  Call("cudaEventQuery_v3020", 400, 560, {.decision = "transfer.sync.settled.query", .saved = -160});
  Call("cudaEventQuery_v3020", 600, 640, {.decision = "transfer.sync.settled.query", .saved = -30});
  const ProcessReport& process = MadeProcess();
  EXPECT_EQ(Row(GainKind::kSynchronizations).measured, 355);
  EXPECT_EQ(Row(GainKind::kLaterWaits).measured_calls, 2U);
  EXPECT_EQ(Row(GainKind::kLaterWaits).measured, -40);
  EXPECT_EQ(process.gains.measured, 315);
}

TEST_F(GainsTest, WithoutRecordsOfDevicesNothingIsMeasured) {
  Promoted();
  Call("cudaEventQuery_v3020", 400, 560, {.decision = "transfer.sync.settled.query", .saved = -160});
  Step(0, 1000);
  Period(5000, 9000);
  const ProcessReport& process = MadeProcess();
  ASSERT_FALSE(process.ahead.has_value());
  EXPECT_EQ(Row(GainKind::kSynchronizations).measured, std::nullopt);
  EXPECT_NE(Row(GainKind::kSynchronizations).not_known.find("recorded in no step"), std::string::npos);
  EXPECT_EQ(Row(GainKind::kLaterWaits).measured, -160);
  EXPECT_EQ(process.gains.measured, std::nullopt) << "what was lost is no sum of what was gained";
}

// ---- by how much a step can be shorter at most

std::optional<int64_t> BoundOf(const ProcessReport& process) { return process.ahead ? process.ahead->at_most : -1; }

// From the start of the call at 40 to 550, whatever the host does meanwhile: while it waits in a synchronization, a
// loader may do what it asked for too early.
TEST_F(GainsTest, TheBoundIsAllTimeAhead) {
  Promoted();
  Call("cudaMalloc_v3020", 100, 150);
  Call("cudaDeviceSynchronize_v3020", 300, 560);
  Call("cudaEventRecord", 700, 710);
  EXPECT_EQ(BoundOf(MadeProcess()), 510);
}

// Of two threads that are ahead at once, a moment counts once.
TEST_F(GainsTest, TheBoundIsOfAllThreadsTogether) {
  Promoted();
  Call("cudaStreamSynchronize_v3020", 200, 205, {.decision = kSkippedName, .thread = kOther});
  Call("cudaEventRecord", 650, 660, {.thread = kOther});
  Call("cudaEventRecord", 700, 710);
  const ProcessReport& process = MadeProcess();
  EXPECT_EQ(BoundOf(process), 510);
  EXPECT_EQ(process.gains.measured, (550 - 45) + (550 - 205)) << "each thread has time of its own";
}

// The step ends at 300, when the device has 250 ns to go.
TEST_F(GainsTest, TheBoundTakesInWhatIsPendingAtTheEnd) {
  Promoted();
  Step(0, 300);
  EXPECT_EQ(BoundOf(MadeProcess()), 510);
}

// The first of two steps would have waited from 40 until 550, and the second one, from 320 on, may have been ahead of
// the device by what is left of that: 260, 250 and 230 ns.
TEST_F(GainsTest, TheBoundOfStepsWithPausesIsOfEachByItself) {
  Promoted();
  Step(0, 300);
  Step(320, 1000);
  EXPECT_EQ(BoundOf(MadeProcess()), 740);
}

// Without the wait two streams ran at once, which the host's time does not tell.
TEST_F(GainsTest, OfSeveralStreamsThereIsNoBound) {
  Promoted();
  Kernel(Call("cudaLaunchKernel_v7000", 60, 70, {.stream = 6000}), 70, 400, {.number = 18});
  Call("cudaEventRecord", 900, 910);
  const ProcessReport& process = MadeProcess();
  ASSERT_TRUE(process.ahead.has_value());
  EXPECT_EQ(process.ahead->at_most, std::nullopt);
  EXPECT_NE(std::string(process.ahead->why_no_bound).find("several streams"), std::string::npos);
}

// ---- estimates

// At 1 MiB the driver took 100, 100, 200 and 400 ns, whose lower quartile is the first; two calls were served in 3
// and 5. At 64 MiB it has one of 1000, so that all count: the second of five. Two frees are too few.
TEST_F(GainsTest, KeptBlocks) {
  for (const int64_t time : {400, 100, 200, 100}) Next("cudaMalloc_v3020", time, "allocator.grown", kMiB);
  Next("cudaMalloc_v3020", 1000, "allocator.grown", 64 * kMiB);
  Next("cudaMalloc_v3020", 1, "allocator.passed.memory", kMiB, 2);  // it failed
  Next("cudaMalloc_v3020", 3, "allocator.reused", kMiB);
  Next("cudaMalloc_v3020", 5, "allocator.reused.behind", kMiB);
  Next("cudaMalloc_v3020", 4, "allocator.reused", 64 * kMiB);
  for (const int64_t time : {50, 60}) Next("cudaFree_v3020", time, "allocator.freed.cap", kMiB);
  for (const int64_t time : {1, 2}) Next("cudaFree_v3020", time, "allocator.parked", kMiB);
  Step(0, 10'000);
  const ProcessReport& process = MadeProcess();
  const GainRow& row = Row(GainKind::kBlocks);
  EXPECT_EQ(row.calls, 5U);
  EXPECT_EQ(row.estimated_calls, 3U);
  EXPECT_EQ(row.estimated, (2 * 100 - 8) + (100 - 4));
  EXPECT_EQ(row.measured, std::nullopt);
  EXPECT_EQ(row.not_known, "of 2 calls, fewer than 3 calls of the same function reached the driver in this run");
  EXPECT_EQ(process.gains.estimated, 288);
}

TEST_F(GainsTest, TwoCallsOfTheDriverAreTooFew) {
  for (const int64_t time : {100, 200}) Next("cudaMalloc_v3020", time, "allocator.grown", kMiB);
  Next("cudaMalloc_v3020", 3, "allocator.reused", kMiB);
  EXPECT_EQ(MadeProcess().gains.estimated, std::nullopt);
  EXPECT_EQ(Row(GainKind::kBlocks).estimated, std::nullopt);
  EXPECT_EQ(Row(GainKind::kBlocks).not_known, "fewer than 3 calls of the same function reached the driver in this run");
}

// What the measured steps gained: the first 100 ns are outside of them, whose calls can be compared with all the same.
TEST_F(GainsTest, OnlyTheMeasuredTimeCounts) {
  for (int i = 0; i < 3; ++i) Next("cudaMalloc_v3020", 20, "allocator.grown", kMiB);
  Next("cudaMalloc_v3020", 2, "allocator.reused", kMiB);
  at_ = 200;
  Next("cudaMalloc_v3020", 4, "allocator.reused", kMiB);
  Step(100, 1000);
  MadeProcess();
  EXPECT_EQ(Row(GainKind::kBlocks).calls, 2U);
  EXPECT_EQ(Row(GainKind::kBlocks).measured_calls, 1U);
  EXPECT_EQ(Row(GainKind::kBlocks).estimated, 16);
}

class GainsOfCopiesTest : public GainsTest {
 protected:
  // Three copies of 64 ns that were left alone while nothing ran, and one of 8 ns while a kernel did.
  void LeftAlone(const std::string& decision) {
    Kernel(Call("cudaLaunchKernel_v7000", 10, 12), 12, 100);
    Copied(50, 8, decision, 100, 110);
    for (const int64_t at : {200, 300, 400}) Copied(at, 64, decision, at + 10, at + 60);
  }
  void Copied(int64_t at, int64_t time, const std::string& decision, int64_t start, int64_t end) {
    Copy(Call("cudaMemcpyAsync_v3020", at, at + time, {.decision = decision, .bytes = kMiB}), start, end);
  }
};

// What staging takes in the program's own call is told by those that had nothing to wait for.
TEST_F(GainsOfCopiesTest, BesideTheWaitCopiesToTheDeviceSaveTheStaging) {
  LeftAlone("transfer.h2d.declined.full");
  for (const int64_t at : {600, 800}) Copied(at, 10, "transfer.h2d.promoted.large", at + 5, at + 100);
  MadeProcess();
  EXPECT_EQ(Row(GainKind::kCopiesToDevice).estimated, 2 * 64 - 2 * 10);
  EXPECT_EQ(Row(GainKind::kCopiesToDevice).measured, std::nullopt)
      << "asynchronous ones may return early by themselves";
  EXPECT_EQ(Row(GainKind::kCopiesToDevice).not_known, "");
}

// One of another size, and of a reason that lies in the copy itself, says nothing.
TEST_F(GainsOfCopiesTest, OtherCopiesAreNoComparison) {
  LeftAlone("transfer.h2d.declined.source");
  for (const int64_t at : {600, 700, 800}) {
    Copy(Call("cudaMemcpyAsync_v3020", at, at + 64, {.decision = "transfer.h2d.declined.full", .bytes = 4 * kMiB}),
         at + 10, at + 60);
  }
  Copied(900, 10, "transfer.h2d.promoted.large", 905, 950);
  MadeProcess();
  EXPECT_EQ(Row(GainKind::kCopiesToDevice).estimated, std::nullopt);
}

// A promoted copy to the host waits for what runs, as at 600 for a kernel: only the one at 800 tells what it saved. For
// work to be looked at, a wait must have been skipped.
TEST_F(GainsOfCopiesTest, CopiesToTheHostThatWaitedForNothing) {
  LeftAlone("transfer.d2h.declined.staging");
  Kernel(Call("cudaLaunchKernel_v7000", 550, 560), 560, 700);
  Copied(600, 150, "transfer.d2h.promoted", 700, 740);
  Copied(800, 24, "transfer.d2h.promoted", 805, 820);
  Call("cudaStreamSynchronize_v3020", 840, 842, {.decision = kSkippedName});
  MadeProcess();
  EXPECT_EQ(Row(GainKind::kCopiesToHost).measured_calls, 2U);
  EXPECT_EQ(Row(GainKind::kCopiesToHost).estimated_calls, 1U);
  EXPECT_EQ(Row(GainKind::kCopiesToHost).estimated, 64 - 24);
  EXPECT_EQ(Row(GainKind::kCopiesToHost).not_known.find("of 1 call, "), 0U);
}

TEST(DurationsTest, TheLowerQuartileIsNeverTooLarge) {
  Durations durations;
  EXPECT_EQ(durations.LowerQuartile(), 0);
  durations.Add(1000);
  EXPECT_EQ(durations.LowerQuartile(), 992) << "31 x 2^5: the next one is 1024";
  for (const int64_t time : {63, 40, 64, 65}) durations.Add(time);
  EXPECT_EQ(durations.count(), 5U);
  EXPECT_EQ(durations.LowerQuartile(), 63) << "the second of five";
  Durations more;
  more.Add(-5);
  more.Add(durations);
  EXPECT_EQ(more.LowerQuartile(), 40) << "the second of six, behind one below zero";
}

// ---- what is made of it

TEST_F(GainsTest, TheScreenAndTheJsonSayIt) {
  OverlappingWaits();
  MadeProcess();
  const std::string text = Screen(report_);
  EXPECT_NE(text.find("WHAT SLIPSTREAM GAINED: host time of all threads, of the measured steps"), std::string::npos);
  EXPECT_NE(text.find("a step is shorter by at most 760 ns and what such a wait takes by itself (2 of them)"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(ReportJson(report_, false))["processes"][0]["gains"];
  ASSERT_EQ(json["rows"].size(), kGainKinds);
  int64_t sum = 0;
  for (const auto& row : json["rows"]) sum += row["measured_ns"].is_null() ? 0 : row["measured_ns"].get<int64_t>();
  EXPECT_EQ(json["measured_ns"], sum);
  EXPECT_EQ(sum, 755);
  EXPECT_EQ(json["rows"][0]["what"], "skipped_synchronizations");
  EXPECT_TRUE(json["estimated_ns"].is_null());
  EXPECT_EQ(json["steps_shorter_by_at_most_ns"], 760);
  EXPECT_EQ(json["skipped_waits"], 2);
}

}  // namespace
}  // namespace slipstream::report
