// What becomes of a program's ranges and marks: records, in a spool, read back.

#include "tracer/ranges/program_ranges.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/spool/range_record.h"

namespace slipstream::tracer {
namespace {

struct Found {
  std::string name;
  std::string domain;
  RangeRecord range;
  uint32_t thread = 0;  // of the record
};

class ProgramRangesTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    names_.reset(RangeNames::Create({}));
    ranges_ = std::make_unique<ProgramRanges>(*names_);
  }
  void Record(const std::string& window = "") {
    RecorderOptions options = {.directory = directory_};
    options.window = *policy::RecordWindow::Parse(window);
    recorder_ = StartRecorder(options);
    ranges_->SetRecorder(recorder_.get());
  }
  // A range with a call in it, whose number is `call`.
  void Step(const std::string& name, uint64_t call) {
    ranges_->Push(0, Called(name));
    recorder_->Record(NumberedCall(call));
    ranges_->Pop(0);
    recorder_->Record(NumberedCall(call + 1000));  // between this step and the next one
  }
  // The numbers of the recorded calls, and "on" or "off" where the recording was paused and went on.
  std::vector<std::string> CallsAndPauses() {
    EXPECT_TRUE(recorder_->Finish(kForeverNs));
    const Spool spool = ReadSpool(OnlySpool());
    EXPECT_EQ(spool.end().dropped + spool.end().missing_records, 0U);
    std::vector<std::string> all;
    for (const SpoolRecord& record : spool.records) {
      if (record.record.kind == RecordKind::kCall) all.push_back(std::to_string(record.record.bytes));
      if (record.record.kind == RecordKind::kSwitch) all.emplace_back(SwitchesOn(record.record) ? "on" : "off");
    }
    return all;
  }
  uint32_t Name(const std::string& text) { return names_->Intern(text); }
  RangeDetail Called(const std::string& text) { return {.name = Name(text)}; }

  std::vector<Found> Recorded() {
    EXPECT_TRUE(recorder_->Finish(kForeverNs));
    std::string error;
    const auto reader = SpoolReader::Open(OnlySpool(), &error);
    EXPECT_NE(reader, nullptr) << error;
    std::vector<Found> found;
    SpoolRecord next;
    const auto name_of = [&](uint32_t number) {
      const std::string* const name = reader->NameOf(NameTable::kRanges, number);
      return name != nullptr ? *name : "";
    };
    while (reader->Next(&next)) {
      if (next.record.kind != RecordKind::kRange) continue;
      const RangeRecord range = RangeOf(next.record);
      found.push_back({name_of(range.name), name_of(range.domain), range, next.tid});
    }
    return found;
  }

  std::unique_ptr<RangeNames> names_;
  std::unique_ptr<ProgramRanges> ranges_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(ProgramRangesTest, RangesOfAThreadNest) {
  Record();
  const uint64_t before = NowNs();
  EXPECT_EQ(ranges_->Push(0, Called("step")), 0);
  EXPECT_EQ(ranges_->Push(0, Called("forward")), 1);
  EXPECT_EQ(ranges_->Pop(0), 1);
  EXPECT_EQ(ranges_->Pop(0), 0);
  EXPECT_EQ(ranges_->Pop(0), -1);
  const uint64_t after = NowNs();
  const std::vector<Found> found = Recorded();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "forward");
  EXPECT_EQ(found[1].name, "step");
  EXPECT_LE(before, found[1].range.start_ns);
  EXPECT_LE(found[1].range.start_ns, found[0].range.start_ns);
  EXPECT_LE(found[0].range.end_ns, found[1].range.end_ns);
  EXPECT_LE(found[1].range.end_ns, after);
  EXPECT_EQ(found[0].range.kind, RangeKind::kPushed);
  EXPECT_EQ(found[0].thread, static_cast<uint32_t>(syscall(SYS_gettid)));
}

// A pop is of its domain, and those of other domains stay open.
TEST_F(ProgramRangesTest, EachDomainHasRangesOfItsOwn) {
  Record();
  const uint32_t nccl = Name("NCCL");
  EXPECT_EQ(ranges_->Push(0, Called("a")), 0);
  EXPECT_EQ(ranges_->Push(nccl, Called("b")), 0);
  EXPECT_EQ(ranges_->Push(0, Called("c")), 1);
  EXPECT_EQ(ranges_->Pop(nccl), 0);
  EXPECT_EQ(ranges_->Pop(nccl), -1);
  EXPECT_EQ(ranges_->Pop(0), 1);
  EXPECT_EQ(ranges_->Pop(0), 0);
  const std::vector<Found> found = Recorded();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name + found[0].domain, "bNCCL");
  EXPECT_EQ(found[1].name + found[1].domain, "c");
  EXPECT_EQ(found[2].name + found[2].domain, "a");
}

TEST_F(ProgramRangesTest, WhatARangeCarries) {
  Record();
  const RangeDetail detail = {.name = Name("x"),
                              .category = 0xfedcba98,
                              .color = 0xff00ff7f,
                              .payload = RangePayload::kSigned,
                              .payload_bits = static_cast<uint64_t>(int64_t{-5})};
  ranges_->Push(Name("d"), detail);
  ranges_->Pop(Name("d"));
  ranges_->Mark(Name("d"), detail);
  const std::vector<Found> found = Recorded();
  ASSERT_EQ(found.size(), 2U);
  for (const Found& one : found) {
    EXPECT_EQ(one.name, "x");
    EXPECT_EQ(one.domain, "d");
    EXPECT_EQ(one.range.category, 0xfedcba98U);
    EXPECT_EQ(one.range.color, 0xff00ff7fU);
    EXPECT_EQ(one.range.payload, RangePayload::kSigned);
    EXPECT_EQ(static_cast<int64_t>(one.range.payload_bits), -5);
  }
  EXPECT_EQ(found[1].range.kind, RangeKind::kMark);
  EXPECT_EQ(found[1].range.start_ns, found[1].range.end_ns);
}

TEST_F(ProgramRangesTest, AStartedRangeEndsOnAnyThread) {
  Record();
  const uint64_t one = ranges_->Start(0, Called("one"));
  const uint64_t two = ranges_->Start(0, Called("two"));
  EXPECT_NE(one, 0U);
  EXPECT_NE(one, two);
  uint32_t other = 0;
  std::thread([&] {
    other = static_cast<uint32_t>(syscall(SYS_gettid));
    ranges_->End(one);
    ranges_->End(one);  // it has ended
    ranges_->End(0);
    ranges_->End(12345678);
  }).join();
  ranges_->End(two);
  std::vector<Found> found = Recorded();
  ASSERT_EQ(found.size(), 2U);
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.name < b.name; });
  EXPECT_EQ(found[0].name, "one");
  EXPECT_EQ(found[0].range.kind, RangeKind::kStarted);
  EXPECT_EQ(found[0].range.thread, static_cast<uint32_t>(syscall(SYS_gettid)));
  EXPECT_EQ(found[0].thread, other);
  EXPECT_EQ(found[1].name, "two");
}

TEST_F(ProgramRangesTest, WhatFindsNoRoomIsCountedAndTheRestStaysRight) {
  Record();
  for (size_t i = 0; i < ProgramRanges::kOpen + 2; ++i) {
    EXPECT_EQ(ranges_->Push(0, Called("deep")), static_cast<int>(i));
  }
  for (size_t i = ProgramRanges::kOpen + 2; i > 0; --i) EXPECT_EQ(ranges_->Pop(0), static_cast<int>(i - 1));
  EXPECT_EQ(ranges_->lost(), 2U);

  std::vector<uint64_t> started;
  for (uint64_t i = 0; i < ProgramRanges::kStarted; ++i) started.push_back(ranges_->Start(0, Called("long")));
  EXPECT_EQ(std::count(started.begin(), started.end(), 0), 0);
  EXPECT_EQ(ranges_->Start(0, Called("long")), 0U);
  EXPECT_EQ(ranges_->lost(), 3U);
  ranges_->End(started[17]);
  const uint64_t again = ranges_->Start(0, Called("again"));
  EXPECT_NE(again, 0U);
  ranges_->End(started[17]);  // not that one
  ranges_->End(again);
  const std::vector<Found> found = Recorded();
  ASSERT_EQ(found.size(), ProgramRanges::kOpen + 2);
  EXPECT_EQ(found.back().name, "again");
}

// Before there is a recorder, and when it has ended, calls keep their order and leave nothing.
TEST_F(ProgramRangesTest, OnlyWhatBeganWhileItWasRecordedIsRecorded) {
  ranges_->Push(0, Called("too early"));
  const uint64_t early = ranges_->Start(0, Called("too early"));
  ranges_->Mark(0, Called("too early"));
  Record();
  EXPECT_EQ(ranges_->Push(0, Called("inside")), 1);
  EXPECT_EQ(ranges_->Pop(0), 1);
  EXPECT_EQ(ranges_->Pop(0), 0);
  ranges_->End(early);
  ranges_->Push(0, Called("too late"));
  const std::vector<Found> found = Recorded();
  EXPECT_EQ(ranges_->Pop(0), 0);
  ranges_->Mark(0, Called("too late"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "inside");
}

TEST_F(ProgramRangesTest, ThreadsDoNotMeet) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  Record();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        ranges_->Push(0, Called("outer " + std::to_string(t)));
        const uint64_t started = ranges_->Start(0, Called("started"));
        EXPECT_EQ(ranges_->Push(0, Called("inner")), 1);
        EXPECT_EQ(ranges_->Pop(0), 1);
        ranges_->End(started);
        EXPECT_EQ(ranges_->Pop(0), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Found> found = Recorded();
  EXPECT_EQ(found.size(), static_cast<size_t>(3 * kThreads * kRounds));
  for (const Found& one : found) EXPECT_NE(one.name, "");
  EXPECT_EQ(ranges_->lost(), 0U);
}

using Texts = std::vector<std::string>;

TEST_F(ProgramRangesTest, AWindowOfStepsByTheNumbersInTheirNames) {
  Record("steps 12-13,20-");
  EXPECT_FALSE(recorder_->recording());
  for (uint64_t i = 10; i < 16; ++i) Step("ProfilerStep#" + std::to_string(i), i);
  Step("ProfilerStep#20", 20);
  EXPECT_EQ(CallsAndPauses(), (Texts{"off", "on", "12", "1012", "13", "1013", "off", "on", "20", "1020"}));
}

TEST_F(ProgramRangesTest, AWindowOfStepsWithoutNumbersCountsThem) {
  Record("steps 1-2");
  for (uint64_t i = 0; i < 5; ++i) {
    Step("train_step", i);
    Step("evaluation", 500 + i);  // is no step, and goes with the one before
  }
  EXPECT_EQ(CallsAndPauses(), (Texts{"off", "on", "1", "1001", "501", "1501", "2", "1002", "502", "1502", "off"}));
}

TEST_F(ProgramRangesTest, StepsWithinAStepAndOfOtherThreadsAreNotCounted) {
  Record("steps 1");
  Step("step", 0);
  std::thread([&] { Step("step", 100); }).join();
  EXPECT_FALSE(recorder_->recording());
  ranges_->Push(0, Called("step"));  // 1
  EXPECT_TRUE(recorder_->recording());
  ranges_->Push(0, Called("step"));
  EXPECT_TRUE(recorder_->recording());
  ranges_->Pop(0);
  ranges_->Pop(0);
  ranges_->Push(0, Called("step"));  // 2
  EXPECT_FALSE(recorder_->recording());
  ranges_->Pop(0);
}

TEST_F(ProgramRangesTest, OnlyRangesOfTheWindowAreRecorded) {
  Record("steps 1");
  for (uint64_t i = 0; i < 3; ++i) Step("step " + std::to_string(i), i);
  const std::vector<Found> found = Recorded();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "step 1");
}

TEST_F(ProgramRangesTest, AWindowOfSecondsThatIsYetToComeRecordsNothing) {
  Record("seconds 86000-86400");
  for (uint64_t i = 0; i < 3; ++i) Step("step", i);
  EXPECT_EQ(CallsAndPauses(), (Texts{"off"}));
}

}  // namespace
}  // namespace slipstream::tracer
