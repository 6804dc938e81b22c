// The end of a trace that grows, from spools written by hand.

#include "tools/trace/top/spool_tail.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/top/top_testing.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/range_record.h"

namespace slipstream::top {
namespace {

using trace_db::CallAt;
using trace_db::HandSpool;
using tracer::NameTable;
using tracer::RecordKind;
using tracer::TraceRecord;

constexpr uint64_t kAll = ~uint64_t{0} >> 1U;

class SpoolTailTest : public tracer::SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    spool_ = std::make_unique<HandSpool>(directory_, "a.spool");
    spool_->Facts({{"pid", "42"}, {"rank", "3"}, {"host", "node"}});
    spool_->Name(NameTable::kHooks, 0, "cudaMemcpyAsync");
    spool_->Name(NameTable::kHooks, 1, "cudaLaunchKernel");
    spool_->Name(NameTable::kHooks, 2, "cudaStreamSynchronize");
    spool_->Name(NameTable::kDecisions, 1, "transfer.sync.skipped");
    spool_->Site(1, "train.py", 10, "load");
    spool_->Site(2, "train.py", 20, "step");
    spool_->Site(3, "train.py", 20, "step");  // another call in the same line
    spool_->Thread(1, 100, "main");
  }

  std::unique_ptr<SpoolTail> Open() {
    std::string error;
    spool_->Flush();
    auto tail = SpoolTail::Open(directory_ + "/a.spool", &error);
    EXPECT_NE(tail, nullptr) << error;
    return tail;
  }

  static TraceRecord Call(uint64_t start_ns, uint64_t time_ns, uint16_t hook, uint32_t site) {
    TraceRecord record = CallAt(start_ns, start_ns + time_ns, hook);
    record.site = site;
    return record;
  }
  // Of 100 ms each: 1 ms at line 10, and 30 ms in two calls at line 20.
  void Steps(uint64_t first_ns, int count) {
    for (int i = 0; i < count; ++i) {
      const uint64_t at = first_ns + static_cast<uint64_t>(i) * 100 * kMs;
      spool_->Pass(at);
      spool_->Records(1,
                      {Call(at, kMs, 0, 1), Call(at + 2 * kMs, 10 * kMs, 1, 2), Call(at + 20 * kMs, 20 * kMs, 2, 3)});
    }
    spool_->Pass(first_ns + static_cast<uint64_t>(count) * 100 * kMs);
    spool_->Flush();
  }

  std::unique_ptr<HandSpool> spool_;
};

TEST_F(SpoolTailTest, StepsAndLinesOfTheLastSeconds) {
  const auto tail = Open();
  EXPECT_TRUE(tail->ReadOn(kAll));
  EXPECT_EQ(tail->pid(), 42);
  EXPECT_EQ(tail->rank(), 3);
  EXPECT_EQ(tail->Fact("host"), "node");
  EXPECT_FALSE(tail->Look({}).steps);
  EXPECT_TRUE(tail->Look({}).lines.empty());

  // 300 steps: the window has the last ten seconds.
  Steps(1000 * kSecond, 300);
  spool_->End();
  EXPECT_TRUE(tail->ReadOn(kAll));
  const TraceView view = tail->Look({});
  EXPECT_TRUE(view.ended);
  EXPECT_EQ(view.trouble, "");
  EXPECT_FALSE(view.read);
  ASSERT_TRUE(view.steps);
  EXPECT_EQ(view.steps->how, "each from train.py:10");
  EXPECT_EQ(view.steps->median_ns, 100 * kMs);
  EXPECT_EQ(view.steps->p95_ns, 100 * kMs);
  EXPECT_EQ(view.steps->last_ns, 100 * kMs);
  EXPECT_EQ(view.steps->of, kStepsShown);
  EXPECT_EQ(view.steps->seen, 299U);  // the last one has no end yet
  EXPECT_NEAR(view.steps->per_second, 10, 1e-9);
  EXPECT_FALSE(view.steps->since_last_ns) << "nobody knows what time it is there";
  ASSERT_EQ(view.lines.size(), 2U);
  EXPECT_EQ(view.lines[0].file, "train.py");
  EXPECT_EQ(view.lines[0].line, 20);
  EXPECT_EQ(view.lines[0].function, "step");
  // From second 1020 on to the last call's end, at 1029.94.
  EXPECT_NEAR(view.seconds, 9.94, 1e-9);
  EXPECT_EQ(view.lines[0].calls, 200U);
  EXPECT_EQ(view.lines[0].time_ns, 3 * kSecond);
  EXPECT_EQ(view.lines[1].line, 10);
  EXPECT_EQ(view.lines[1].time_ns, 100 * kMs);
  ASSERT_TRUE(view.steps_in_window);
  EXPECT_NEAR(*view.steps_in_window, 99, 1e-9);
  EXPECT_FALSE(view.has_device_work);
  EXPECT_FALSE(view.ahead);
}

TEST_F(SpoolTailTest, ADamagedPartIsSaidAndReadingGoesOn) {
  Steps(1000 * kSecond, 60);
  spool_->End();
  tracer::DamageChunk(directory_ + "/a.spool", 8 + 30);  // calls of one step
  std::string error;
  const auto tail = SpoolTail::Open(directory_ + "/a.spool", &error);
  ASSERT_NE(tail, nullptr) << error;
  EXPECT_TRUE(tail->ReadOn(kAll));
  const TraceView view = tail->Look({});
  EXPECT_TRUE(view.damaged);
  EXPECT_TRUE(view.ended);
  EXPECT_EQ(view.trouble, "");
  ASSERT_TRUE(view.steps);
  EXPECT_EQ(view.steps->seen, 58U) << "two are one";
}

// The same figures however the file was cut while it was read, and each byte is read once.
TEST_F(SpoolTailTest, AFileThatGrowsIsReadOn) {
  Steps(1000 * kSecond, 60);
  spool_->End();
  const std::string bytes = tracer::Slurp(directory_ + "/a.spool");
  const std::string path = directory_ + "/grows.spool";
  tracer::Spit(path, bytes.substr(0, 40));
  std::string error;
  const auto tail = SpoolTail::Open(path, &error);
  ASSERT_NE(tail, nullptr) << error;
  for (size_t size = 41; size < bytes.size(); size += 37) {
    std::ofstream(path, std::ios::binary | std::ios::app)
        << bytes.substr(std::filesystem::file_size(path), size - std::filesystem::file_size(path));
    ASSERT_TRUE(tail->ReadOn(kAll));
    ASSERT_FALSE(tail->Look({}).ended);
    ASSERT_EQ(tail->Look({}).trouble, "");
  }
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes.substr(std::filesystem::file_size(path));
  ASSERT_TRUE(tail->ReadOn(kAll));
  const TraceView grown = tail->Look({});
  const auto whole = SpoolTail::Open(directory_ + "/a.spool", &error);
  ASSERT_TRUE(whole->ReadOn(kAll));
  const TraceView once = whole->Look({});
  EXPECT_TRUE(grown.ended);
  ASSERT_TRUE(grown.steps && once.steps);
  EXPECT_EQ(grown.steps->seen, once.steps->seen);
  EXPECT_EQ(grown.steps->seen, 59U);
  EXPECT_EQ(grown.lines.size(), once.lines.size());
  EXPECT_EQ(grown.lines[0].time_ns, once.lines[0].time_ns);
}

TEST_F(SpoolTailTest, ReadsInPartsAndSaysHowFarItIs) {
  Steps(1000 * kSecond, 200);
  const auto tail = Open();
  EXPECT_FALSE(tail->ReadOn(1000));
  const auto read = tail->Look({}).read;
  ASSERT_TRUE(read);
  EXPECT_GT(*read, 0);
  EXPECT_LT(*read, 0.5);
  while (!tail->ReadOn(1000)) {
  }
  EXPECT_FALSE(tail->Look({}).read);
}

// The process was killed: what waited for its order is there, and nothing more comes.
TEST_F(SpoolTailTest, TheEndOfAKilledProcess) {
  Steps(1000 * kSecond, 10);
  const auto tail = Open();
  tail->ReadOn(kAll);
  const uint64_t before = tail->Look({}).lines[0].calls;
  EXPECT_LT(before, 20U);
  tail->End();
  EXPECT_EQ(tail->Look({}).lines[0].calls, 20U);
  EXPECT_TRUE(tail->Look({}).ended);
}

TEST_F(SpoolTailTest, AProcessThatStandsStillGrowsOld) {
  Steps(1000 * kSecond, 20);
  const auto tail = Open();
  tail->End();
  const TraceView view = tail->Look(1060 * kSecond);
  ASSERT_TRUE(view.steps);
  EXPECT_EQ(view.steps->since_last_ns, 1060 * kSecond - (1000 * kSecond + 1900 * kMs));
  EXPECT_TRUE(view.lines.empty());
  EXPECT_EQ(view.seconds, 0);
}

TEST_F(SpoolTailTest, StepsThatTheProgramNames) {
  spool_->Name(NameTable::kRanges, 1, "train step 1");
  spool_->Name(NameTable::kRanges, 2, "train step 2");
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 5; ++i) {
    records.push_back(tracer::RecordOf({.start_ns = 1000 * kSecond + i * kMs,
                                        .end_ns = 1000 * kSecond + (i + 1) * kMs,
                                        .kind = tracer::RangeKind::kPushed,
                                        .name = static_cast<uint32_t>(1 + i % 2)}));
  }
  spool_->Records(1, records);
  const auto tail = Open();
  tail->End();
  const TraceView view = tail->Look({});
  ASSERT_TRUE(view.steps);
  EXPECT_EQ(view.steps->seen, 5U);
  EXPECT_EQ(view.steps->median_ns, kMs);
  EXPECT_EQ(view.steps->how, "NVTX ranges \"train step\"");
}

// Two models in turn, whose data lies on the device: no line brings a batch, and none comes once in a step.
TEST_F(SpoolTailTest, StepsByWhatIsLaunched) {
  spool_->Site(4, "train.py", 30, "step");
  const auto steps = [&](uint64_t first_ns, int count) {
    for (int i = 0; i < count; ++i) {
      const uint64_t at = first_ns + static_cast<uint64_t>(i) * 100 * kMs;
      spool_->Pass(at);
      std::vector<TraceRecord> calls;
      for (const uint64_t part : {0, 1, 2, 3, 4}) {
        calls.push_back(Call(at + part * 10 * kMs, kMs, 1, part % 2 == 0 ? 2 : 4));
      }
      spool_->Records(1, calls);
    }
    spool_->Pass(first_ns + static_cast<uint64_t>(count) * 100 * kMs);
    spool_->Flush();
  };
  const auto tail = Open();
  steps(1000 * kSecond, 50);
  EXPECT_TRUE(tail->ReadOn(kAll));
  const TraceView early = tail->Look({});
  ASSERT_TRUE(early.steps);
  EXPECT_EQ(early.steps->how,
            "each about 5 launches, copies and sets that come again, the first of them at train.py:20");
  EXPECT_EQ(early.steps->median_ns, 100 * kMs);
  EXPECT_GE(early.steps->seen, 45U);
  // Those that ended since are added.
  steps(1005 * kSecond, 50);
  EXPECT_TRUE(tail->ReadOn(kAll));
  const TraceView late = tail->Look({});
  ASSERT_TRUE(late.steps);
  EXPECT_EQ(late.steps->median_ns, 100 * kMs);
  EXPECT_GE(late.steps->seen, early.steps->seen + 45);
  EXPECT_LE(late.steps->seen, 100U);
  // A line that brings a batch is asked before.
  Steps(1010 * kSecond, 300);
  EXPECT_TRUE(tail->ReadOn(kAll));
  EXPECT_EQ(tail->Look({}).steps->how, "each from train.py:10");
}

// Kernels on two streams, half a second of each second; the device's clock is 5 s ahead.
TEST_F(SpoolTailTest, HowBusyTheDeviceWas) {
  constexpr uint64_t kAhead = 5 * kSecond;
  const auto clock = [&](uint64_t at, tracer::DeviceReading reading) {
    spool_->Records(0, {tracer::DeviceClockRecord(at, at, at + kAhead, 0, reading)});
  };
  const uint64_t begin = 1000 * kSecond;
  clock(begin, tracer::DeviceReading::kBegins);
  for (uint64_t i = 0; i < 8; ++i) {
    const uint64_t at = begin + i * 500 * kMs;
    std::vector<tracer::ActivityRecord> work;
    for (uint32_t stream = 0; stream < 2; ++stream) {
      work.push_back(
          RecordOf(tracer::KernelWork{.work = {.start_ns = at + kAhead + uint64_t{stream} * 50 * kMs,
                                               .end_ns = at + kAhead + 200 * kMs + uint64_t{stream} * 50 * kMs,
                                               .device = 1,
                                               .context = 1,
                                               .stream = stream,
                                               .correlation = 0}}));
    }
    spool_->Pass(at);
    spool_->Activities(work);
    clock(at + 500 * kMs, tracer::DeviceReading::kBetween);
  }
  const auto tail = Open();
  tail->End();
  const TraceView view = tail->Look({});
  EXPECT_TRUE(view.has_device_work);
  ASSERT_EQ(view.devices.size(), 1U);
  EXPECT_EQ(view.devices[0].device, 1);
  EXPECT_NEAR(view.devices[0].busy, 0.5, 1e-9);  // up to the reading before the last
}

// The device profiler's clock runs a thousandth faster than CLOCK_MONOTONIC, which would be more than what is measured.
TEST_F(SpoolTailTest, WhatASkippedWaitSaves) {
  const uint64_t begin = 1000 * kSecond;
  const auto recorded = [&](uint64_t ms) { return begin + ms * kMs + ms * kMs / 1000; };
  const auto clock = [&](uint64_t ms, tracer::DeviceReading reading = tracer::DeviceReading::kBetween) {
    const uint64_t at = begin + ms * kMs;
    spool_->Records(0, {tracer::DeviceClockRecord(at, at, recorded(ms), 0, reading)});
  };
  clock(0, tracer::DeviceReading::kBegins);
  TraceRecord launch = Call(begin + 100 * kMs, kMs, 1, 2);
  launch.correlation = 9;
  launch.stream = 0x77;
  TraceRecord wait = Call(begin + 110 * kMs, kMs, 2, 2);
  wait.stream = 0x77;
  wait.correlation = 10;  // it asks for nothing, so no work of it is waited for
  wait.decision = 1;
  spool_->Pass(begin + 200 * kMs);
  spool_->Records(1, {launch, wait, Call(begin + 1100 * kMs, kMs, 1, 2)});
  spool_->Pass(begin + 2000 * kMs);
  clock(500);
  clock(1000);
  spool_->Activities({RecordOf(tracer::KernelWork{.work = {.start_ns = recorded(101),
                                                           .end_ns = recorded(611),
                                                           .device = 0,
                                                           .context = 1,
                                                           .stream = 13,
                                                           .correlation = 9}}),
                      RecordOf(tracer::SynchronizationWork{.work = {.start_ns = recorded(110),
                                                                    .end_ns = recorded(900),
                                                                    .device = 0,
                                                                    .context = 1,
                                                                    .stream = 13,
                                                                    .correlation = 9},
                                                           .type = 3})});
  clock(2000);
  clock(2500);
  const auto tail = Open();
  tail->End();
  const auto ahead = tail->Look({}).ahead;
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->skipped, 1U);
  EXPECT_NEAR(ahead->share, 0.5, 1e-6);  // 500 ms from the wait to the end of the kernel, of 1 s
}

TEST_F(SpoolTailTest, WhatIsNoSpoolIsSaid) {
  tracer::Spit(directory_ + "/b.spool", "nothing of the kind");
  std::string error;
  EXPECT_EQ(SpoolTail::Open(directory_ + "/b.spool", &error), nullptr);
  EXPECT_NE(error, "");
}

}  // namespace
}  // namespace slipstream::top
