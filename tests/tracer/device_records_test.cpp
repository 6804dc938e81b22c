// Records of device work on their way to the writer: names once, what finds no room counted.

#include "tracer/spool/device_records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/spool/device_work.h"

namespace slipstream::tracer {
namespace {

TEST(DeviceRecordsTest, ANameHasOneNumberAndIsToldOnce) {
  DeviceRecords records;
  std::string first = "fill";
  const std::string same = "fill";
  EXPECT_EQ(records.KernelName(nullptr), 0U);
  EXPECT_EQ(records.KernelName(first.c_str()), 1U);
  EXPECT_EQ(records.KernelName(first.c_str()), 1U);
  EXPECT_EQ(records.KernelName(same.c_str()), 1U);
  EXPECT_EQ(records.KernelName("sum"), 2U);
  std::memcpy(first.data(), "move", 4);
  EXPECT_EQ(records.KernelName(first.c_str()), 3U) << "another name at an address that is known";
  DeviceRecords::Waiting waiting;
  records.Take(&waiting);
  ASSERT_EQ(waiting.names.size(), 3U);
  EXPECT_EQ(waiting.names[2].text, "move");
  EXPECT_EQ(waiting.names[2].number, 3U);
  records.KernelName("sum");
  records.Take(&waiting);
  EXPECT_TRUE(waiting.names.empty());
}

TEST(DeviceRecordsTest, WhatFindsNoRoomIsCounted) {
  DeviceRecords records;
  const std::vector<ActivityRecord> many(DeviceRecords::kMaxWaiting - 1);
  records.Add(many);
  EXPECT_EQ(records.dropped(), 0U);
  records.Add(std::vector<ActivityRecord>(3));
  EXPECT_EQ(records.dropped(), 2U);
  records.Dropped(5);
  EXPECT_EQ(records.dropped(), 7U);
  DeviceRecords::Waiting waiting;
  records.Take(&waiting);
  EXPECT_EQ(waiting.activities.size(), DeviceRecords::kMaxWaiting);
  records.Add(std::vector<ActivityRecord>(3));
  EXPECT_EQ(records.dropped(), 7U) << "there is room again";
  for (size_t i = 0; i < DeviceRecords::kMaxWaiting; ++i) records.AddReading(DeviceClockRecord(i, i, i, 0));
  EXPECT_EQ(records.dropped(), 7U);
  records.AddReading(DeviceClockRecord(1, 1, 1, 0));
  EXPECT_EQ(records.dropped(), 8U) << "a reading that is missing is missing too";
}

class DeviceSpoolTest : public SpoolTest {};

// A file system that does not answer for as long as g_silent is true.
std::atomic<bool> g_silent{false};
std::atomic<bool> g_stands{false};
ssize_t StalledWrite(int file, const void* bytes, size_t size, off_t at) {
  if (g_silent.load()) {
    g_stands.store(true);
    g_stands.notify_all();
    g_silent.wait(true);
  }
  return pwrite(file, bytes, size, at);
}

// While it stands, queue and ring take what they have room for, the rest is dropped, and nobody waits.
TEST_F(DeviceSpoolTest, AWriterThatStandsCostsRecordsThatAreCounted) {
  constexpr uint64_t kTooMany = 7;
  constexpr uint64_t kCalls = 10'000;
  DeviceRecords records;
  const auto recorder = StartRecorder({.directory = directory_, .calls = {.pwrite = StalledWrite}});
  ASSERT_NE(recorder, nullptr);
  recorder->SetDevice(&records);
  g_silent.store(true);
  recorder->Record(NumberedCall(0));
  g_stands.wait(false);
  const ActivityRecord kernel = RecordOf(KernelWork{.work = {.start_ns = 1, .end_ns = 2}});
  records.Add(std::vector<ActivityRecord>(DeviceRecords::kMaxWaiting + kTooMany, kernel));
  EXPECT_EQ(records.dropped(), kTooMany);
  for (uint64_t i = 1; i < kCalls; ++i) recorder->Record(NumberedCall(i));
  g_silent.store(false);
  g_silent.notify_all();
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(OnlySpool());
  ASSERT_NE(spool.reader, nullptr);
  EXPECT_EQ(spool.end().reason, EndReason::kFinished);
  const size_t activities = spool.Of(RecordKind::kActivity).size();
  const size_t calls = spool.Of(RecordKind::kCall).size();
  EXPECT_EQ(activities, DeviceRecords::kMaxWaiting);
  EXPECT_LT(calls, kCalls);
  EXPECT_EQ(calls + spool.end().dropped, kCalls + kTooMany);
}

// More than one chunk of them, names before them, and what was dropped in the end of the file.
TEST_F(DeviceSpoolTest, TheFileHasAllOfThemInTheirOrder) {
  constexpr uint32_t kCount = 5000;
  DeviceRecords records;
  const auto recorder = StartRecorder({.directory = directory_});
  ASSERT_NE(recorder, nullptr);
  recorder->SetDevice(&records);
  records.Say("deviceWork", "here");
  records.AddName(NameTable::kDriverFunctions, 307, "cuLaunchKernel");
  for (uint32_t i = 0; i < kCount; ++i) {
    const std::string name = "kernel" + std::to_string(i % 10);
    const ActivityRecord record = RecordOf(KernelWork{.work = {.start_ns = i + 1, .end_ns = i + 2, .correlation = i},
                                                      .name = records.KernelName(name.c_str())});
    records.Add({&record, 1});
  }
  records.Dropped(11);
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(OnlySpool());
  ASSERT_NE(spool.reader, nullptr);
  EXPECT_TRUE(spool.reader->end().complete);
  EXPECT_EQ(spool.reader->end().dropped, 11U);
  EXPECT_EQ(spool.reader->end().malformed_chunks + spool.reader->end().missing_records, 0U);
  EXPECT_EQ(spool.reader->facts().at("deviceWork"), "here");
  EXPECT_EQ(*spool.reader->NameOf(NameTable::kDriverFunctions, 307), "cuLaunchKernel");
  const auto kernels = spool.Of(RecordKind::kActivity);
  ASSERT_EQ(kernels.size(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    const KernelWork kernel = KernelOf(kernels[i].activity);
    EXPECT_EQ(kernel.work.start_ns, i + 1);
    EXPECT_EQ(kernel.work.correlation, i);
    EXPECT_EQ(*spool.reader->NameOf(NameTable::kKernels, kernel.name), "kernel" + std::to_string(i % 10));
  }
}

// All that were taken from the queue at once: those that the file has no room for are counted.
TEST_F(DeviceSpoolTest, WhatTheFileHasNoRoomForIsCounted) {
  constexpr uint64_t kCount = 5000;
  DeviceRecords records;
  const auto recorder = StartRecorder({.directory = directory_, .max_file_bytes = Recorder::kMinFileBytes});
  ASSERT_NE(recorder, nullptr);
  records.Add(std::vector<ActivityRecord>(kCount, RecordOf(KernelWork{.work = {.start_ns = 1, .end_ns = 2}})));
  recorder->SetDevice(&records);
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(OnlySpool());
  ASSERT_NE(spool.reader, nullptr);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  const size_t written = spool.Of(RecordKind::kActivity).size();
  EXPECT_LT(written, Recorder::kMinFileBytes / sizeof(ActivityRecord));
  EXPECT_EQ(written + spool.end().dropped, kCount);
}

// The calls have filled the file before the devices' turn comes.
TEST_F(DeviceSpoolTest, WhatStillWaitsWhenTheFileIsFullIsCounted) {
  constexpr uint64_t kCalls = 1500;
  constexpr uint64_t kCount = 100;
  static_assert(kCalls * sizeof(TraceRecord) > Recorder::kMinFileBytes);
  DeviceRecords records;
  const auto recorder = StartRecorder(
      {.directory = directory_, .max_file_bytes = Recorder::kMinFileBytes, .period_ns = uint64_t{60'000'000'000}});
  ASSERT_NE(recorder, nullptr);
  for (uint64_t i = 0; i < kCalls; ++i) recorder->Record(NumberedCall(i));
  records.Add(std::vector<ActivityRecord>(kCount, RecordOf(KernelWork{.work = {.start_ns = 1, .end_ns = 2}})));
  recorder->SetDevice(&records);
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  const Spool spool = ReadSpool(OnlySpool());
  ASSERT_NE(spool.reader, nullptr);
  EXPECT_EQ(spool.end().reason, EndReason::kLimit);
  const size_t written = spool.Of(RecordKind::kActivity).size() + spool.Of(RecordKind::kCall).size();
  EXPECT_EQ(written + spool.end().dropped + spool.end().later_calls, kCalls + kCount);
}

// A file that is full ends what the devices are asked for too: CUPTI costs every launch something.
TEST_F(DeviceSpoolTest, DevicesArePausedOnceTheRecordingHasEndedByItself) {
  const auto recorder = StartRecorder({.directory = directory_, .max_file_bytes = Recorder::kMinFileBytes});
  ASSERT_NE(recorder, nullptr);
  EXPECT_FALSE(recorder->pauses_devices());
  for (uint64_t i = 0; recorder->failure().problem == SpoolProblem::kNone; ++i) recorder->Record(NumberedCall(i));
  EXPECT_TRUE(recorder->pauses_devices());
  ASSERT_TRUE(recorder->Finish(kForeverNs));
}

}  // namespace
}  // namespace slipstream::tracer
