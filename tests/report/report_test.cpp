// The figures of a trace that is known to the nanosecond, and of ones that nobody would believe.

#include "tools/trace/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "tests/report/report_testing.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/html.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/text.h"
#include "tracer/spool/block_record.h"

namespace slipstream::report {
namespace {

int64_t PartOfAll(const ProcessReport& process, Part part) { return process.parts[static_cast<size_t>(part)].total; }

TEST_F(ReportTest, StepsAndTheirParts) {
  Sample("0.spool", 0);
  BuildWell();
  const Report report = Make();
  ASSERT_EQ(report.processes.size(), 1U);
  const ProcessReport& process = report.processes[0];
  EXPECT_TRUE(process.has_steps);
  EXPECT_FALSE(process.steps_found);
  EXPECT_EQ(process.step_thread_name, "main");
  EXPECT_EQ(process.warm_up_steps, 1U);
  EXPECT_EQ(process.measured_steps, kSteps);
  EXPECT_EQ(process.measured_time, kSteps * kStep);
  EXPECT_EQ(process.step_time.total, kSteps * kStep);
  EXPECT_EQ(process.step_time.median, kStep);
  EXPECT_EQ(process.step_time.min, kStep);
  EXPECT_EQ(process.step_time.max, kStep);
  const std::vector<std::pair<Part, int64_t>> expected = {
      {Part::kCopies, 100},   {Part::kSynchronizes, 250}, {Part::kAllocator, 10}, {Part::kLaunches, 40},
      {Part::kOtherCalls, 0}, {Part::kElsewhere, 100},    {Part::kOutside, 500}};
  for (const auto& [part, time] : expected) {
    SCOPED_TRACE(std::string(NameOf(part)));
    EXPECT_EQ(PartOfAll(process, part), time * static_cast<int64_t>(kSteps));
    EXPECT_EQ(process.parts[static_cast<size_t>(part)].median, time);
  }
  EXPECT_EQ(process.calls, 1 + 6 * (kSteps + 1));
  EXPECT_EQ(process.measured_calls, 6 * kSteps);
  EXPECT_EQ(process.calls_outside_steps, 1U);
  EXPECT_EQ(process.calls_without_line, kSteps);
  EXPECT_EQ(process.steps[1].calls, 5U);
  EXPECT_EQ(process.steps[1].calls_elsewhere, 1U);
}

TEST_F(ReportTest, Sites) {
  Sample("0.spool", 0);
  BuildWell();
  const Report report = Make();
  const std::vector<SiteReport>& sites = report.processes[0].sites;
  ASSERT_EQ(sites.size(), 4U);
  constexpr auto kCount = static_cast<int64_t>(kSteps);
  EXPECT_EQ(sites[0].file, "/job/train.py");
  EXPECT_EQ(sites[0].line, 30);
  EXPECT_EQ(sites[0].function, "main");
  EXPECT_EQ(sites[0].time, 200 * kCount);
  EXPECT_EQ(sites[0].waiting, kSteps);
  EXPECT_EQ(sites[0].gap, (350 - 100) * kCount);  // for 100 of it, another thread is in a call
  EXPECT_EQ(sites[1].line, 10);
  EXPECT_EQ(sites[1].time, 150 * kCount);
  EXPECT_EQ(sites[1].calls, 2 * kSteps);
  EXPECT_EQ(sites[1].waiting, 0U);  // skipped
  EXPECT_EQ(sites[1].bytes, 4096 * kCount);
  EXPECT_EQ(sites[1].gap, 100 * (kCount - 1));
  ASSERT_EQ(sites[1].functions.size(), 2U);
  EXPECT_EQ(sites[1].functions[0].name, "cudaMemcpyAsync");
  EXPECT_EQ(sites[1].functions[0].calls, kSteps);
  EXPECT_FALSE(sites[2].known);
  EXPECT_FALSE(sites[2].of_step_thread);
  EXPECT_EQ(sites[2].time, 100 * kCount);
  EXPECT_EQ(sites[3].line, 20);
  EXPECT_EQ(sites[3].time, 50 * kCount);
  EXPECT_EQ(sites[3].gap, 150 * kCount);
}

// Lines before which the time outside CUDA calls lies are parts of it: another thread's time is none of theirs.
TEST_F(ReportTest, WhatIsBeforeALineAddsUpToTheTimeOutside) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    // A step of 1000: a copy to 100, then 800 without a call of its own, of which another thread is in one for 700; a
    // launch from 900 to 950, and 50 behind it. So 150 are outside: 100 before the launch, 50 before the next copy.
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t at = kBegin + kStep * i;
      main.push_back(Call(kMemcpyHook, at, at + 100, kCopySite));
      other.push_back(Call(kLaunchHook, at + 150, at + 850, kNoSite));
      main.push_back(Call(kLaunchHook, at + 900, at + 950, kLaunchSite));
      main.push_back(tracer::StepRecord(at, at + kStep, i));
    }
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.End();
  }
  BuildWell();
  const Report report = Make();
  const ProcessReport& process = report.processes.at(0);
  constexpr auto kCount = static_cast<int64_t>(kSteps);
  EXPECT_EQ(PartOfAll(process, Part::kElsewhere), 700 * kCount);
  EXPECT_EQ(PartOfAll(process, Part::kOutside), 150 * kCount);
  std::map<int64_t, int64_t> gaps;
  for (const SiteReport& site : process.sites) {
    if (site.of_step_thread) gaps[site.line.value_or(0)] = site.gap;
  }
  // Behind the last step's launch comes no call.
  EXPECT_EQ(gaps, (std::map<int64_t, int64_t>{{10, 50 * (kCount - 1)}, {20, 100 * kCount}}));
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("before /job/train.py:20 (step)"), std::string::npos) << text;
  // 50 of 8000 ns: 6.25 a step.
  EXPECT_NE(text.find("      before other calls, or none" + std::string(8 + 6, ' ') + "6 ns    0.6 %"),
            std::string::npos)
      << text;
}

// Of calls that begin together, in whatever order they were recorded.
TEST_F(ReportTest, TheLongerOneHasTheTime) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    spool.Records(
        1, {Call(kLaunchHook, kBegin, kBegin + 10, kLaunchSite), Call(kMemcpyHook, kBegin, kBegin + 50, kCopySite),
            Call(kQueryHook, kBegin, kBegin + 60, kNoSite), tracer::StepRecord(kBegin, kBegin + 100, 0)});
    spool.End();
  }
  BuildWell();
  const Report report = Make();
  const ProcessReport& process = report.processes.at(0);
  EXPECT_EQ(PartOfAll(process, Part::kOtherCalls), 60);
  EXPECT_EQ(PartOfAll(process, Part::kCopies), 0);
  EXPECT_EQ(PartOfAll(process, Part::kLaunches), 0);
  EXPECT_EQ(PartOfAll(process, Part::kOutside), 40);
}

// ---- who had memory

// At `at`, for ten nanoseconds.
tracer::TraceRecord Block(tracer::MemoryUse use, uint64_t at, uint64_t address, uint64_t bytes, int16_t device = 0,
                          uint32_t site = kNoSite, uint32_t library = 0, uint64_t stream = 0) {
  tracer::BlockRecord block;
  block.start_ns = at;
  block.end_ns = at + 10;
  block.use = use;
  block.address = address;
  block.bytes = bytes;
  block.stream = stream;
  block.device = device;
  block.library = library;
  block.site = site;
  block.hook = kMallocHook;
  return RecordOf(block);
}

TEST_F(ReportTest, WhoHadMemoryAtThePeak) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Name(tracer::NameTable::kCallers, 1, "/lib/libc10_cuda.so");
    spool.Name(tracer::NameTable::kCallers, 2, "/lib/libnccl.so.2");
    spool.Pass(kBegin);
    const uint64_t at = kBegin;
    // Thread 2 has the same address from a call that ended before thread 1's free of it had.
    spool.Records(2, {Block(kAllocated, at + 95, 0x1000, 50, 0, kLaunchSite, 1, 7)});
    spool.Records(1, {Block(kAllocated, at, 0x1000, 100, 0, kCopySite, 1),
                      Block(kAllocated, at + 20, 0x2000, 200, 0, kCopySite, 1),
                      Block(kAllocated, at + 40, 0x3000, 40, 0, kNoSite, 2),
                      Block(kAllocated, at + 60, 0x4000, 1000, 1, kCopySite, 1),
                      Block(kFreed, at + 100, 0x1000, 0, -1, kLaunchSite, 1),
                      Block(kAllocated, at + 130, 0x5000, 300, 0, kLaunchSite, 1),  // the peak: 200 + 40 + 50 + 300
                      Block(kFreed, at + 150, 0x2000, 0, -1), Block(kFreed, at + 170, 0x9999, 0, -1),
                      Block(kAllocated, at + 190, 0x3000, 60, 0, kNoSite, 2)});
    spool.Records(0, {tracer::MemoryRecord(at + 120, {.device = 0, .live_bytes = 290, .idle_bytes = 10}),
                      tracer::MemoryRecord(at + 145, {.device = 0, .live_bytes = 1, .idle_bytes = 2})});
    spool.End();
  }
  BuildWell();
  ReportOptions options;
  options.timeline = true;
  const Report report = Make(options);
  const ProcessReport& process = report.processes.at(0);
  ASSERT_EQ(process.held.size(), 2U);
  const HeldReport& held = process.held[0];
  EXPECT_EQ(held.device, 0);
  EXPECT_EQ(held.peak, 590);
  EXPECT_EQ(held.peak_blocks, 4U);
  EXPECT_EQ(held.last, 50 + 300 + 60);
  EXPECT_EQ(held.last_blocks, 3U);
  EXPECT_EQ(held.allocations, 6U);
  ASSERT_EQ(held.holders.size(), 3U);
  EXPECT_EQ(held.holders[0].line, 20);
  EXPECT_EQ(held.holders[0].sum.bytes, 350);
  EXPECT_EQ(held.holders[0].sum.blocks, 2U);
  EXPECT_EQ(held.holders[1].line, 10);
  EXPECT_EQ(held.holders[1].sum.bytes, 200);
  EXPECT_FALSE(held.holders[2].known);
  EXPECT_EQ(held.holders[2].library, "/lib/libnccl.so.2");
  EXPECT_EQ(held.holders[2].sum.bytes, 40);
  ASSERT_EQ(held.libraries.size(), 2U);
  EXPECT_EQ(held.libraries[0].second.bytes, 550);
  EXPECT_EQ(held.libraries[1].first, "/lib/libnccl.so.2");
  EXPECT_EQ(held.streams.at(0).bytes, 540);
  EXPECT_EQ(held.streams.at(7).bytes, 50);
  EXPECT_EQ(held.sizes.at(8).bytes, 300);
  EXPECT_EQ(held.sizes.at(7).bytes, 200);
  EXPECT_EQ(held.sizes.at(5).blocks, 2U);
  ASSERT_TRUE(held.pool);
  EXPECT_EQ(held.pool->live, 290);
  EXPECT_EQ(held.pool->idle, 10);
  ASSERT_FALSE(held.points.empty());
  const auto highest = std::max_element(held.points.begin(), held.points.end(),
                                        [](const HeldPoint& a, const HeldPoint& b) { return a.bytes < b.bytes; });
  EXPECT_EQ(highest->bytes, 590);
  EXPECT_EQ(highest->of, (std::vector<int64_t>{350, 200, 40}));
  EXPECT_EQ(process.held[1].device, 1);
  EXPECT_EQ(process.held[1].peak, 1000);
  EXPECT_EQ(process.unknown_frees, 1U);
  EXPECT_EQ(process.unseen_frees, 1U);  // 0x3000 was allocated twice
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("59.3 %         2   /job/train.py:20 (step)"), std::string::npos) << text;
  EXPECT_NE(text.find("libnccl.so.2 (no line known)"), std::string::npos);
  EXPECT_NE(text.find("300 B then, 10 B of it idle"), std::string::npos) << text;
  EXPECT_NE(text.find("PyTorch asks cudaMalloc for segments"), std::string::npos);
}

TEST_F(ReportTest, AResetOfOneOfSeveralDevicesIsSaid) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    spool.Records(1, {Block(kAllocated, kBegin, 0x1000, 100), Block(tracer::MemoryUse::kReset, kBegin + 20, 0, 0, -1),
                      Block(kAllocated, kBegin + 40, 0x1000, 30), Block(kAllocated, kBegin + 60, 0x2000, 7, 1),
                      Block(tracer::MemoryUse::kReset, kBegin + 80, 0, 0, -1)});
    spool.End();
  }
  BuildWell();
  const Report report = Make();
  const ProcessReport& process = report.processes.at(0);
  ASSERT_EQ(process.held.size(), 2U);
  EXPECT_EQ(process.held[0].peak, 100);
  EXPECT_EQ(process.held[0].last, 30);
  EXPECT_EQ(process.held[1].last, 7);
  EXPECT_EQ(process.unseen_frees, 0U);
  EXPECT_EQ(process.unknown_resets, 1U);
  EXPECT_TRUE(process.held[0].points.empty()) << "nobody asked for them";
}

TEST_F(ReportTest, DecisionsMemoryAndErrors) {
  Sample("0.spool", 0);
  {
    trace_db::HandSpool spool(run_, "1.spool");
    Introduce(&spool, 1);
    tracer::TraceRecord failed = Call(kMallocHook, 5000, 5001, kNoSite);
    failed.status = 2;
    tracer::TraceRecord not_ready = Call(kQueryHook, 5002, 5003, kNoSite);
    not_ready.status = 600;
    spool.Pass(5000);
    spool.Records(1, {failed, not_ready});
    spool.End();
  }
  BuildWell();
  const Report report = Make();
  ASSERT_EQ(report.processes.size(), 2U);
  const ProcessReport& process = report.processes[0];
  ASSERT_EQ(process.decisions.size(), 2U);
  EXPECT_EQ(process.decisions[0].name, "transfer.sync.settled.query");
  EXPECT_EQ(process.decisions[0].calls, kSteps + 1);
  EXPECT_EQ(process.decisions[0].measured_calls, kSteps);
  EXPECT_EQ(process.decisions[0].saved, 0);
  EXPECT_EQ(process.decisions[0].lost, 60 * static_cast<int64_t>(kSteps + 1));
  EXPECT_EQ(process.decisions[1].name, "transfer.sync.skipped");
  EXPECT_EQ(process.decisions[1].meaning, "synchronizations skipped");
  EXPECT_EQ(process.decisions[1].lost, 0);
  ASSERT_EQ(process.memory.size(), 1U);
  EXPECT_EQ(process.memory[0].peak_live, 4096);
  EXPECT_EQ(process.memory[0].peak_idle, 9000);
  EXPECT_EQ(process.memory[0].peak, 1024 + 9000);
  EXPECT_EQ(process.memory[0].peak_point.time, FirstMeasured() - static_cast<int64_t>(kSlow) + 20);
  EXPECT_EQ(process.memory[0].peak_point.live, 1024);
  EXPECT_EQ(StepNumberAt(process, process.memory[0].peak_point.time), 0);
  EXPECT_EQ(StepNumberAt(process, FirstMeasured() - 1), 0);
  EXPECT_EQ(StepNumberAt(process, FirstMeasured()), 1);
  EXPECT_EQ(StepNumberAt(process, FirstMeasured() + static_cast<int64_t>(kStep * kSteps)), std::nullopt);
  EXPECT_EQ(process.memory[0].last_live, 2048);
  EXPECT_EQ(process.memory[0].readings, 3U);
  EXPECT_TRUE(process.errors.empty());
  const ProcessReport& other = report.processes[1];
  EXPECT_FALSE(other.has_steps);
  ASSERT_EQ(other.errors.size(), 1U);
  EXPECT_EQ(other.errors[0].function, "cudaMalloc");
  EXPECT_EQ(other.errors[0].code, 2);
  EXPECT_TRUE(other.memory.empty());
}

TEST_F(ReportTest, Devices) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  const Report report = Make({.timeline = true});
  EXPECT_TRUE(report.kernels_recorded);
  const ProcessReport& process = report.processes[0];
  ASSERT_EQ(process.devices.size(), 1U);
  const DeviceReport& device = process.devices[0];
  constexpr auto kCount = static_cast<int64_t>(kSteps);
  EXPECT_EQ(device.name, "NVIDIA H200");
  EXPECT_EQ(device.sms, 132);
  EXPECT_EQ(device.kernels, 2 * kSteps);
  EXPECT_EQ(device.kernel_time, 350 * kCount);
  EXPECT_EQ(device.times.kernels, 300 * kCount);
  EXPECT_EQ(device.times.copies, 200 * kCount);
  EXPECT_EQ(device.times.copies_alone, 150 * kCount);
  // The host meanwhile: copying, synchronizing, allocating, launching, in other calls, outside.
  const std::array<int64_t, kHostStates> idle = {50, 200, 10, 40, 0, 250};
  for (size_t i = 0; i < kHostStates; ++i) EXPECT_EQ(device.times.idle[i], idle[i] * kCount) << i;
  // Half of the SMs for 250 ns, all for the 50 ns of both kernels.
  EXPECT_DOUBLE_EQ(*device.sm_efficiency, (250 * 0.5 + 50) / 1000);
  EXPECT_DOUBLE_EQ(*device.achieved_occupancy, 0.5 * 256 / 2048);
  EXPECT_EQ(device.tensor_core_time, 200 * kCount);
  ASSERT_EQ(device.top.size(), 2U);
  EXPECT_EQ(device.top[0].name, "gemm");
  EXPECT_TRUE(device.top[0].tensor_cores);
  EXPECT_EQ(device.top[1].name, "elementwise");
  EXPECT_FALSE(device.top[1].tensor_cores);
  ASSERT_EQ(device.copies.size(), 2U);
  EXPECT_EQ(device.copies[0].name, "Set");
  EXPECT_EQ(device.copies[1].name, "Host-to-Device");
  EXPECT_EQ(device.copies[1].bytes, 4096 * kCount);

  ASSERT_TRUE(report.timeline.has_value());
  EXPECT_EQ(report.timeline->number, 1);
  ASSERT_EQ(report.timeline->lanes.size(), 3U);
  EXPECT_EQ(report.timeline->lanes[0].name, "thread 100 main");
  EXPECT_EQ(report.timeline->lanes[0].items.size(), 5U);
  EXPECT_EQ(report.timeline->lanes[1].name, "thread 101 autograd");
  EXPECT_EQ(report.timeline->lanes[2].name, "GPU 0, stream 7");
  EXPECT_EQ(report.timeline->lanes[2].items.size(), 4U);
}

// Of the items of a lane, how much of them lies between two moments.
int64_t BusyBetween(const TimelineLane& lane, int64_t from, int64_t to) {
  int64_t busy = 0;
  for (const TimelineItem& item : lane.items) {
    busy += std::max<int64_t>(0, std::min(item.end, to) - std::max(item.start, from));
  }
  return busy;
}

// A launch of 60 ns every 100 ns: the whole step is as busy as its first tenth.
TEST_F(ReportTest, AStepOfManyCallsIsDrawnToItsEnd) {
  constexpr uint64_t kCalls = 10'000;
  constexpr uint64_t kLong = 100 * kCalls;
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    std::vector<tracer::TraceRecord> records;
    for (uint64_t i = 0; i < kCalls; ++i) {
      records.push_back(Call(kLaunchHook, kBegin + 100 * i, kBegin + 100 * i + 60, kLaunchSite));
      if (records.size() < 500) continue;
      spool.Records(1, records);
      records.clear();
    }
    spool.Records(1, {tracer::StepRecord(kBegin, kBegin + kLong, 1)});
    spool.End();
  }
  BuildWell();
  const Report report = Make({.timeline = true});
  ASSERT_TRUE(report.timeline.has_value());
  const Timeline& timeline = *report.timeline;
  ASSERT_EQ(timeline.lanes.size(), 1U);
  for (int64_t tenth = 0; tenth < 10; ++tenth) {
    const int64_t from = timeline.start + tenth * static_cast<int64_t>(kLong / 10);
    EXPECT_EQ(BusyBetween(timeline.lanes[0], from, from + static_cast<int64_t>(kLong / 10)), 60 * 1000) << tenth;
  }
  // A piece has 1250 ns. Of every 25 calls, 12 lie within the first piece of two, 12 within the second one, and one
  // across the border between them.
  EXPECT_EQ(timeline.merged, 24 * kCalls / 25);
  EXPECT_EQ(timeline.merged_into, 800U);
  EXPECT_EQ(timeline.lanes[0].items.size(), 800U + kCalls / 25);
  EXPECT_EQ(timeline.lanes[0].items[0].count, 12U);
  EXPECT_EQ(timeline.lanes[0].items[0].name, "cudaLaunchKernel");
  EXPECT_EQ(timeline.left_out, 0U);
  EXPECT_NE(ReportHtml(report, "js")
                .find("9,600 things in it are too short to be seen, and are merged into 800, each as long"),
            std::string::npos);
}

// Of calls within others, the time counts once; what is merged has the name of what takes most of it.
TEST_F(ReportTest, WhatIsMergedIsAsLongAsWhatItCovers) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    // A piece has 1000 ns. In the first one: 100 of a launch, in which a query is for 50, and 300 of a malloc.
    spool.Records(1, {Call(kLaunchHook, kBegin + 100, kBegin + 200, kLaunchSite),
                      Call(kQueryHook, kBegin + 120, kBegin + 170, kLaunchSite),
                      Call(kMallocHook, kBegin + 500, kBegin + 800, kLaunchSite),
                      Call(kMemcpyHook, kBegin + 5000, kBegin + 5010, kCopySite),
                      tracer::StepRecord(kBegin, kBegin + 800'000, 1)});
    spool.End();
  }
  BuildWell();
  const Report report = Make({.timeline = true});
  ASSERT_TRUE(report.timeline.has_value());
  ASSERT_EQ(report.timeline->lanes.size(), 1U);
  const std::vector<TimelineItem>& items = report.timeline->lanes[0].items;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].start - report.timeline->start, 100);
  EXPECT_EQ(items[0].end - items[0].start, 100 + 300);
  EXPECT_EQ(items[0].name, "cudaMalloc");
  EXPECT_EQ(items[0].kind, static_cast<int>(CallKind::kAllocator));
  EXPECT_EQ(items[0].count, 3U);
  EXPECT_EQ(items[1].end - items[1].start, 10);
  EXPECT_EQ(items[1].count, 1U);
}

// Processes of two hosts may have one number.
TEST_F(ReportTest, OneStepHasTheDeviceWorkOfItsOwnProcess) {
  Sample("0.spool", 0);
  Sample("1.spool", 1, 1200);
  BuildWell();
  AddDevices(/*limits=*/false);
  Execute(database_,
          "UPDATE SLIPSTREAM_PROCESSES SET pid = 100, globalPid = (SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE "
          "processId = 1) + (1 << 56) WHERE processId = 2;"
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT " +
              std::to_string(FirstMeasured() + 100) + ", " + std::to_string(FirstMeasured() + 400) +
              ", 0, 7, 1, globalPid, 900003, 900003, 1, 1, 1, 32, 1, 1, 32, 0, 0 FROM SLIPSTREAM_PROCESSES WHERE "
              "processId = 2");
  const Report report = Make({.timeline = true});
  EXPECT_EQ(report.shown, 1U);
  ASSERT_TRUE(report.timeline.has_value());
  std::vector<TimelineItem> work;
  for (const TimelineLane& lane : report.timeline->lanes) {
    if (lane.name.starts_with("GPU")) work.insert(work.end(), lane.items.begin(), lane.items.end());
  }
  ASSERT_EQ(work.size(), 1U);
  EXPECT_EQ(work[0].name, "elementwise");
  EXPECT_EQ(work[0].start, FirstMeasured() + 100);
}

TEST_F(ReportTest, WithoutTheDevicesLimitsTheirFiguresAreNotKnown) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/false);
  const Report report = Make();
  const DeviceReport& device = report.processes[0].devices.at(0);
  EXPECT_EQ(device.times.kernels, 300 * static_cast<int64_t>(kSteps));
  EXPECT_EQ(device.sm_efficiency, std::nullopt);
  EXPECT_EQ(device.achieved_occupancy, std::nullopt);
  EXPECT_NE(FormatReport(report).find("est. SM efficiency not known"), std::string::npos);
}

// A database of Nsight Systems' own: no table of slipstream's, no globalPid with the kernels, no index.
TEST_F(ReportTest, AnotherProgramsDatabase) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  std::string drop;
  for (const std::string& table : trace_db::TablesOf(database_)) {
    if (table.starts_with("SLIPSTREAM_")) drop += "DROP TABLE " + table + ";";
  }
  Execute(database_, drop +
                         "DROP INDEX SLIPSTREAM_RUNTIME_BY_START; DROP INDEX SLIPSTREAM_RUNTIME_BY_CORRELATION;"
                         "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid;"
                         "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN dynamicSharedMemory");
  const Report report = Make({.timeline = true});
  ASSERT_EQ(report.processes.size(), 1U);
  const ProcessReport& process = report.processes[0];
  EXPECT_FALSE(process.has_steps);
  EXPECT_EQ(process.pid, 100);
  EXPECT_EQ(process.executable, "/usr/bin/python3");
  EXPECT_EQ(process.calls, 1 + 6 * (kSteps + 1));
  // Of the whole of it, up to the last call's end.
  EXPECT_EQ(process.step_time.total, 100 + 5000 + 7 * 1000 + 900);
  EXPECT_EQ(PartOfAll(process, Part::kSynchronizes), 250 * static_cast<int64_t>(kSteps + 1));
  EXPECT_EQ(PartOfAll(process, Part::kElsewhere), 100 * static_cast<int64_t>(kSteps + 1));
  ASSERT_EQ(process.devices.size(), 1U);
  EXPECT_EQ(process.devices[0].times.kernels, 300 * static_cast<int64_t>(kSteps));
  EXPECT_FALSE(report.timeline.has_value());
  EXPECT_NE(FormatReport(report).find("not a database of slipstream's"), std::string::npos);
}

TEST_F(ReportTest, RanksAndTheSlowest) {
  Sample("a.spool", 2);
  Sample("b.spool", 0);
  Sample("c.spool", 1, 1200);
  BuildWell();
  const Report report = Make();
  ASSERT_EQ(report.processes.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(report.processes[i].rank, static_cast<int64_t>(i));
  EXPECT_EQ(report.shown, 1U);
  EXPECT_EQ(report.processes[1].step_time.median, 1200);
  EXPECT_EQ(PartOfAll(report.processes[1], Part::kOutside), 700 * static_cast<int64_t>(kSteps));
  EXPECT_EQ(PartOfAll(report.processes[2], Part::kOutside), 500 * static_cast<int64_t>(kSteps));
  ASSERT_TRUE(report.spread.has_value());
  EXPECT_EQ(report.spread->shortest, 0U);
  EXPECT_EQ(report.spread->longest, 1U);
  EXPECT_EQ(report.spread->difference, 200);
  ASSERT_TRUE(report.slowest.has_value());
  EXPECT_EQ(report.slowest->process, 1U);
  EXPECT_EQ(report.slowest->by, Slowest::By::kStepTime);
  EXPECT_NE(FormatReport(report).find("slowest: rank 1, 200 ns a step (20.0 %) behind rank 0 in the median"),
            std::string::npos)
      << FormatReport(report);
}

// Steps of these lengths on one thread, each launching for 50 at its beginning and synchronizing for `wait` behind
// that.
void SpoolOfSteps(trace_db::HandSpool* spool, uint64_t begin, const std::vector<uint64_t>& lengths, uint64_t wait) {
  std::vector<tracer::TraceRecord> records;
  uint64_t at = begin;
  for (size_t i = 0; i < lengths.size(); ++i) {
    records.push_back(Call(kLaunchHook, at, at + 50, kLaunchSite));
    if (wait != 0) records.push_back(Call(kSynchronizeHook, at + 50, at + 50 + wait, kWaitSite));
    records.push_back(tracer::StepRecord(at, at + lengths[i], i));
    at += lengths[i];
  }
  spool->Pass(begin);
  spool->Records(1, records);
  spool->End();
}

// Ranks that train together: the one that waits has the longer step by a hair, and the other one is late.
TEST_F(ReportTest, TheRankThatWaitsLeastIsTheSlowest) {
  const std::array<uint64_t, 2> lengths = {1010, 1000};
  const std::array<uint64_t, 2> waits = {600, 100};
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    trace_db::HandSpool spool(run_, std::to_string(rank) + ".spool");
    Introduce(&spool, static_cast<int>(rank));
    SpoolOfSteps(&spool, kBegin, std::vector<uint64_t>(kSteps, lengths[rank]), waits[rank]);
  }
  BuildWell();
  const Report report = Make();
  ASSERT_EQ(report.processes.size(), 2U);
  EXPECT_EQ(report.processes[0].time_outside_waits.median, 1010 - 600);
  EXPECT_EQ(report.processes[1].time_outside_waits.median, 1000 - 100);
  ASSERT_TRUE(report.spread.has_value());
  EXPECT_EQ(report.spread->longest, 0U);
  ASSERT_TRUE(report.slowest.has_value());
  EXPECT_EQ(report.slowest->process, 1U);
  EXPECT_EQ(report.slowest->than, 0U);
  EXPECT_EQ(report.slowest->by, Slowest::By::kOutsideWaits);
  EXPECT_EQ(report.slowest->difference, 900 - 410);
  EXPECT_EQ(report.shown, 1U);
  const std::string flat = std::regex_replace(FormatReport(report), std::regex("\n      "), " ");
  EXPECT_NE(flat.find("slowest: rank 1, as it waits least: steps are alike, and it is 490 ns a step longer outside"),
            std::string::npos)
      << flat;
}

// The medians, the fourth of eight, are 1000 and 1100; both ranks have steps from 1000 to 1500.
TEST_F(ReportTest, RanksThatDifferByLessThanTheirStepsDoAreNotNamed) {
  const std::array<std::array<uint64_t, 2>, 2> lengths = {{{1000, 1400}, {1100, 1500}}};
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    trace_db::HandSpool spool(run_, std::to_string(rank) + ".spool");
    Introduce(&spool, static_cast<int>(rank));
    std::vector<uint64_t> steps;
    for (uint64_t i = 0; i < kSteps; ++i) steps.push_back(lengths[rank][i % 2]);
    SpoolOfSteps(&spool, kBegin, steps, 0);
  }
  BuildWell();
  const Report report = Make();
  ASSERT_TRUE(report.spread.has_value());
  EXPECT_EQ(report.spread->difference, 100);
  EXPECT_FALSE(report.slowest.has_value());
  EXPECT_NE(FormatReport(report).find("slowest: none: ranks differ by less"), std::string::npos)
      << FormatReport(report);
}

// Steps of one length, as of ranks that train together; the second one is late, and the others are in their kernels
// until it comes.
TEST_F(ReportTest, WhomTheOthersWaitFor) {
  for (int rank = 0; rank < 3; ++rank) Sample(std::to_string(rank) + ".spool", rank);
  BuildWell();
  AddDevices(/*limits=*/false);
  EXPECT_FALSE(Make().communication.has_value()) << "nobody communicates";
  Execute(database_, "INSERT INTO StringIds VALUES (900004, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL')");
  const std::array<int64_t, 3> until = {900, 850, 920};
  std::string rows;
  for (size_t rank = 0; rank < until.size(); ++rank) {
    const std::string process = One("SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE rank = " + std::to_string(rank));
    for (uint64_t i = 0; i < kSteps; ++i) {
      const int64_t at = FirstMeasured() + static_cast<int64_t>(i * kStep);
      rows += "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + std::to_string(at + 800) + ", " +
              std::to_string(at + until[rank]) + ", 0, 9, 1, " + process +
              ", 900004, 900004, 8, 1, 1, 512, 1, 1, 96, 0, 0);";
    }
  }
  Execute(database_, rows);
  const Report report = Make();
  ASSERT_TRUE(report.communication.has_value());
  EXPECT_EQ(report.communication->waited_for, 1U);
  EXPECT_EQ(report.communication->waits_most, 2U);
  EXPECT_EQ(report.communication->wait, 70);
  ASSERT_TRUE(report.slowest.has_value());
  EXPECT_EQ(report.slowest->process, 1U);
  EXPECT_EQ(report.slowest->than, 2U);
  EXPECT_EQ(report.slowest->by, Slowest::By::kCommunication);
  EXPECT_EQ(report.shown, 1U);
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("waiting: rank 2 is 70 ns a step longer in kernels that communicate than rank 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("and computing nothing"), std::string::npos);
}

TEST_F(ReportTest, StepsWithDropsAreLeftOut) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    for (uint64_t i = 0; i < kSteps; ++i) AddStep(kBegin + kStep * i, kStep, i, &main, &other);
    const uint64_t at = kBegin + 3 * kStep + 200;
    main.push_back(tracer::DropRecord(at, at + 10, 7, 7));
    // Another thread's calls would look like time outside them, too.
    other.push_back(tracer::DropRecord(kBegin + 10, kBegin + 20, 500'000, 500'000));
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.End();
  }
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  EXPECT_EQ(process.dropped_steps, 2U);
  EXPECT_EQ(process.measured_steps, kSteps - 2);
  EXPECT_EQ(process.steps[0].use, StepUse::kDropped);
  EXPECT_EQ(process.steps[3].use, StepUse::kDropped);
  EXPECT_EQ(process.drop_gaps, 2U);
  EXPECT_EQ(process.dropped_of_step_thread, 7U);
  EXPECT_EQ(process.dropped_of_others, 500'000U);
  EXPECT_EQ(process.measured_time, (kSteps - 2) * kStep);
  const std::string flat = std::regex_replace(FormatReport(report), std::regex("\n      "), " ");
  EXPECT_NE(flat.find("2 steps with dropped records, left out (7 of this thread, 500,000 of other threads)"),
            std::string::npos)
      << flat;
}

// What a thread lost at its very end is in no gap, only in its count: it is missing behind its last call.
TEST_F(ReportTest, StepsBehindAThreadsLastCallAreLeftOutIfItLostRecordsThere) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    for (uint64_t i = 0; i < kSteps; ++i) AddStep(kBegin + kStep * i, kStep, i, &main, &other);
    other.resize(5);  // of steps 0 to 4; the last one ends 500 behind the beginning of step 4
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Make().processes.at(0).dropped_steps, 0U);
  Execute(database_, "UPDATE SLIPSTREAM_THREADS SET dropped = 3 WHERE thread = 2");
  const ProcessReport process = Make().processes.at(0);
  EXPECT_EQ(process.dropped_steps, kSteps - 4);  // steps 4 to 7
  EXPECT_EQ(process.steps[3].use, StepUse::kMeasured);
  EXPECT_EQ(process.steps[4].use, StepUse::kDropped);
  EXPECT_EQ(process.dropped_of_others, 3U);
}

TEST_F(ReportTest, StepsWithADamagedPartAreLeftOut) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    for (uint64_t i = 0; i < kSteps; ++i) {
      std::vector<tracer::TraceRecord> main;
      std::vector<tracer::TraceRecord> other;
      AddStep(kBegin + kStep * i, kStep, i, &main, &other);
      spool.Records(1, main);
      spool.Records(2, other);
    }
    spool.End();
  }
  // Behind the chunks of Introduce, and two a step: the calls of step 3, and its end.
  const size_t damaged = tracer::DamageChunk(run_ + "/0.spool", 15 + 2 * 3);
  EXPECT_EQ(damaged, 32U + 24 + 8 * 64);
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  ASSERT_EQ(process.steps.size(), kSteps - 1);
  EXPECT_EQ(process.steps[3].number, 4);
  EXPECT_EQ(process.steps[3].use, StepUse::kDropped) << "nobody knows what was lost of its beginning";
  EXPECT_EQ(process.dropped_steps, 1U);
  EXPECT_EQ(process.measured_steps, kSteps - 2);
  EXPECT_EQ(process.measured_time, static_cast<int64_t>((kSteps - 2) * kStep));
  EXPECT_EQ(process.missing_records, 8);
  EXPECT_EQ(process.dropped, 0U);
  EXPECT_EQ(process.drop_gaps, 0U);
  EXPECT_EQ(Missing(process), "its file is damaged: 568 B passed over, 1 chunk missing; 8 records missing");
  EXPECT_NE(ReportJson(report, true).find("\"damaged_bytes\": 568,"), std::string::npos);
  EXPECT_NE(ReportJson(report, true).find("\"missing_chunks\": 1,"), std::string::npos);
}

TEST_F(ReportTest, ARecordingThatEndedBeforeItsProcess) {
  const auto make = [&](const char* name, bool killed, uint64_t later) {
    trace_db::HandSpool spool(run_, name);
    Introduce(&spool, 0);
    spool.Records(1, {Call(kMallocHook, kBegin, kBegin + 2'000'000'000, kNoSite)});
    spool.Stop(tracer::EndReason::kLimit);
    if (!killed) spool.End(tracer::EndReason::kLimit, 0, later);
  };
  const std::string first = "recorded up to the size that its file may have: its first ";
  const auto expect = [&](const std::string& more, const std::string& later_calls) {
    BuildWell();
    const Report report = Make();
    const std::string missing = Missing(report.processes[0]);
    EXPECT_TRUE(missing.starts_with(first)) << missing;
    EXPECT_EQ(missing.substr(std::min(missing.size(), missing.find(" s", first.size()) + 2)), more);
    EXPECT_NE(ReportJson(report, true).find("\"later_calls\": " + later_calls + ","), std::string::npos);
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::permissions(run_, std::filesystem::perms::owner_all);
    std::filesystem::remove(database_);
  };
  make("0.spool", false, 1'234'567);
  expect("; 1,234,567 later calls not in it", "1234567");
  make("0.spool", false, 0);
  expect("", "0");
  make("0.spool", true, 0);
  expect("; nobody knows how many calls came later", "null");
}

// A pause is no idle time: steps across it are left out, and so is it from a process that has no steps.
TEST_F(ReportTest, PausesAreNotMeasured) {
  Sample("0.spool", 0);
  BuildWell();
  const auto at = [&](uint64_t step) { return std::to_string(FirstMeasured() + static_cast<int64_t>(kStep * step)); };
  Execute(database_, "INSERT INTO SLIPSTREAM_PAUSES VALUES (1, " + at(2) + " + 500, " + at(4) + ")");
  const Report report = Make();
  const ProcessReport& process = report.processes.at(0);
  EXPECT_EQ(process.paused_steps, 2U) << "2 and 3; 4 begins where it ends";
  EXPECT_EQ(process.measured_steps, kSteps - 2);
  EXPECT_EQ(process.measured_time, static_cast<int64_t>(kStep * (kSteps - 2)));
  EXPECT_EQ(process.pauses, 1U);
  EXPECT_EQ(process.paused_time, 1500);
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("  recorded in part: "), std::string::npos) << text;
  EXPECT_NE(text.find("  nothing else is missing\n"), std::string::npos) << text;
  EXPECT_NE(ReportJson(report, true).find("\"with_recording_paused\": 2"), std::string::npos);

  Execute(database_, "DELETE FROM SLIPSTREAM_STEPS");
  const Report none = Make();
  EXPECT_FALSE(none.processes.at(0).has_steps);
  EXPECT_EQ(none.processes.at(0).measured_time,
            none.processes.at(0).last - none.processes.at(0).first - none.processes.at(0).paused_time);
  // All of it.
  Execute(database_, "DELETE FROM SLIPSTREAM_PAUSES; INSERT INTO SLIPSTREAM_PAUSES VALUES (1, -1000000, 1000000000)");
  const Report paused = Make();
  EXPECT_EQ(paused.processes.at(0).measured_time, 0);
  EXPECT_FALSE(FormatReport(paused).empty());
}

TEST_F(ReportTest, AProcessThatKeptTheNewest) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    const auto steps = [&](uint64_t from, uint64_t to) {
      std::vector<tracer::TraceRecord> main;
      std::vector<tracer::TraceRecord> other;
      for (uint64_t i = from; i < to; ++i) AddStep(kBegin + kStep * i, kStep, i, &main, &other);
      spool.Records(1, main);
      spool.Records(2, other);
    };
    steps(0, 3);
    // In the midst of step 2, of which the rest was not in the file yet.
    spool.Section(kBegin + kStep * 2 + 500);
    Introduce(&spool, 0);
    steps(3, kSteps);
    spool.GiveUp(17);
    spool.End();
  }
  // Behind the 15 chunks of Introduce and the two of the steps.
  tracer::ZeroChunksBefore(run_ + "/0.spool", 17);
  BuildWell();
  const Report report = Make();
  const ProcessReport& process = report.processes.at(0);
  ASSERT_EQ(process.steps.size(), kSteps - 3);
  EXPECT_EQ(process.steps[0].number, 3);
  EXPECT_EQ(process.dropped_steps, 0U);
  EXPECT_EQ(process.given_up_records, 1 + 3 * 9U) << "a clock, and of each step six calls, two decisions and itself";
  ASSERT_TRUE(process.kept_from);
  EXPECT_EQ(process.first, *process.kept_from);
  EXPECT_EQ(Missing(process), "");
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("  kept the newest: "), std::string::npos) << text;
  EXPECT_NE(text.find("  nothing else is missing\n"), std::string::npos) << text;
  EXPECT_NE(ReportJson(report, true).find("\"given_up_records\": 28,"), std::string::npos);
}

// As an older slipstream made it, which knew neither.
TEST_F(ReportTest, ADatabaseWithoutColumnsForDamage) {
  Sample("0.spool", 0);
  BuildWell();
  Execute(database_,
          "ALTER TABLE SLIPSTREAM_PROCESSES DROP COLUMN damagedBytes; ALTER TABLE SLIPSTREAM_PROCESSES DROP COLUMN "
          "missingChunks; ALTER TABLE SLIPSTREAM_DROPS DROP COLUMN isDamage");
  EXPECT_NE(FormatReport(Make()).find("  nothing is missing\n"), std::string::npos);
}

// What another profiler had of the devices is not idle time.
TEST_F(ReportTest, StepsThatAnotherProfilerHadAreLeftOut) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(false);
  // Of the measured steps, from 0.
  const auto at = [&](uint64_t step) { return std::to_string(FirstMeasured() + static_cast<int64_t>(kStep * step)); };
  const std::string insert = "INSERT INTO SLIPSTREAM_DEVICE_PERIODS VALUES (1, ";
  Execute(database_, insert + "0, " + at(2) + "); " + insert + at(4) + " + 500, " + at(50) + ")");
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  EXPECT_EQ(process.unwatched_steps, 3U) << "2, 3 and 4";
  for (const Step& step : process.steps) {
    if (step.use != StepUse::kUnwatched) continue;
    EXPECT_GE(step.start, FirstMeasured() + static_cast<int64_t>(kStep * 2));
  }
  EXPECT_EQ(process.measured_steps, kSteps - 3);
  EXPECT_EQ(process.step_time_before_devices.count, 0U) << "CUPTI was there";
  ASSERT_EQ(process.devices.size(), 1U);
  EXPECT_EQ(process.devices[0].times.kernels, 300 * static_cast<int64_t>(kSteps - 3));
  EXPECT_NE(FormatReport(report).find("3 steps in which devices were not recorded, left out"), std::string::npos)
      << FormatReport(report);
  EXPECT_NE(FormatReport(report).find("recorded as the driver's functions"), std::string::npos);
  Execute(database_, "DELETE FROM SLIPSTREAM_DEVICE_PERIODS; " + insert + at(2) + " + 500, " + at(50) + ")");
  EXPECT_EQ(Make().processes[0].step_time_before_devices.count, 2U) << "0 and 1; 2 is recorded in a part";
  Execute(database_, "DELETE FROM SLIPSTREAM_DEVICE_PERIODS; " + insert + "0, 1)");
  const Report none = Make();
  EXPECT_TRUE(none.processes[0].unwatched_everywhere);
  EXPECT_TRUE(none.processes[0].devices.empty()) << "idle would be a guess";
  EXPECT_EQ(none.processes[0].measured_steps, kSteps);
  EXPECT_NE(FormatReport(none).find("devices were recorded in no step to its end"), std::string::npos);
}

// Where it had them from the beginning to the end, there is no time at which they were recorded.
TEST_F(ReportTest, DevicesThatAnotherProfilerHadAllAlong) {
  Sample("0.spool", 0);
  BuildWell();
  EXPECT_EQ(Make().processes[0].no_devices, "") << "it does not say whether they were to be recorded";
  Execute(database_, "INSERT INTO SLIPSTREAM_FACTS VALUES (1, 'device_work', 'on')");
  const Report report = Make();
  EXPECT_EQ(report.processes[0].no_devices, "another profiler had the devices, or their recording had not begun");
  EXPECT_NE(FormatReport(report).find("devices: nothing of them was recorded: another profiler had"), std::string::npos)
      << FormatReport(report);
  Execute(database_,
          "INSERT INTO SLIPSTREAM_DEVICE_PERIODS SELECT processId, firstNs, lastNs FROM SLIPSTREAM_PROCESSES");
  EXPECT_EQ(Make().processes[0].no_devices, "");
}

// Device work whose call has a library is work that no hook saw.
TEST_F(ReportTest, LibrariesThatAskPastEveryHook) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(false);
  EXPECT_TRUE(Make().processes[0].libraries.empty());
  const std::string call = One("SELECT correlationId FROM SLIPSTREAM_CALLS ORDER BY correlationId LIMIT 1");
  const std::string other = One("SELECT correlationId FROM SLIPSTREAM_CALLS ORDER BY correlationId DESC LIMIT 1");
  Execute(database_,
          "INSERT INTO StringIds VALUES (900010, '/lib/libcublasLt.so.13'), (900011, '');"
          "UPDATE SLIPSTREAM_CALLS SET libraryId = 900010 WHERE correlationId = " +
              call +
              ";"
              "UPDATE SLIPSTREAM_CALLS SET libraryId = 900011 WHERE correlationId = " +
              other +
              ";"
              "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = " +
              call +
              " WHERE rowid <= 5;"
              "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = -1 WHERE rowid > 5;"
              "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET correlationId = " +
              other +
              " WHERE rowid = 1;"
              "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET correlationId = -1 WHERE rowid > 1;"
              "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET correlationId = " +
              call +
              " WHERE rowid = 2;"
              "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET correlationId = -1 WHERE rowid != 2;"
              "INSERT INTO SLIPSTREAM_DEVICE_WORK VALUES (1, 16, 8, 8, 3)");
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  ASSERT_EQ(process.libraries.size(), 2U);
  EXPECT_EQ(process.libraries[0].path, "/lib/libcublasLt.so.13");
  EXPECT_EQ(process.libraries[0].kernels, 5U);
  EXPECT_EQ(process.libraries[0].copies, 1U);
  EXPECT_EQ(process.libraries[0].time, 3 * 200 + 2 * 150 + 100);
  EXPECT_EQ(process.libraries[1].path, "");
  EXPECT_EQ(process.libraries[1].copies, 1U);
  EXPECT_EQ(process.all_kernels, 16U);
  const std::string text = FormatReport(report);
  for (const char* const expected :
       {"by no hook, in the whole run: 5 of 16 kernels and 2 copies and sets, asked for by\n",
        "    libcublasLt.so.13                                     5 kernels        1 copies, sets   1.00 us\n",
        "    unknown                                               0 kernels        1 copies, sets    100 ns\n",
        "devices: of 3 kernels, copies and sets the call is not in the trace"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << text;
  }
}

// A call of a library's past every hook that waits is counted, and whose it is; other calls of it are not.
TEST_F(ReportTest, LibrariesThatSynchronizePastEveryHook) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(false);
  Execute(database_,
          "INSERT INTO StringIds VALUES (900010, '/lib/libnccl.so.2'), (900011, '/lib/libcublas.so.13'), "
          "(900012, 'cuStreamSynchronize_ptsz'), (900013, 'cuCtxSynchronize'), (900014, 'cuStreamWaitEvent');"
          "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, "
          "returnValue) SELECT 100 + value, 100 + value + 7, 1, (SELECT min(globalTid) FROM SLIPSTREAM_THREADS), "
          "910000 + value, CASE value WHEN 4 THEN 900014 WHEN 3 THEN 900013 ELSE 900012 END, 0 "
          "FROM (SELECT 1 AS value UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5);"
          "INSERT INTO SLIPSTREAM_CALLS (correlationId, processId, thread, bytes, stream, siteIsBackward, libraryId, "
          "workIsOwn) SELECT correlationId, 1, 1, 0, 0, 0, CASE correlationId WHEN 910005 THEN 900011 ELSE 900010 END, "
          "0 FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId > 910000;"
          "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET correlationId = 910005 WHERE rowid = 1;"
          "INSERT INTO SLIPSTREAM_DEVICE_WORK VALUES (1, 16, 8, 8, 3)");
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  ASSERT_EQ(process.libraries.size(), 2U);
  EXPECT_EQ(process.libraries[0].path, "/lib/libcublas.so.13") << "it has work";
  EXPECT_EQ(process.libraries[0].copies, 1U);
  EXPECT_EQ(process.libraries[0].synchronizations, 1U);
  EXPECT_EQ(process.libraries[0].synchronizing_time, 7);
  EXPECT_EQ(process.libraries[1].path, "/lib/libnccl.so.2");
  EXPECT_EQ(process.libraries[1].kernels, 0U);
  EXPECT_EQ(process.libraries[1].synchronizations, 3U);
  EXPECT_EQ(process.libraries[1].synchronizing_time, 21);
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("      it synchronized 3 times, in 21 ns of the host\n"), std::string::npos) << text;
  const std::string figures = ReportJson(report, false);
  EXPECT_NE(figures.find("\"synchronizations\": 3"), std::string::npos) << figures;
  EXPECT_NE(figures.find("\"synchronizations_host_ns\": 21"), std::string::npos);
}

TEST_F(ReportTest, AKilledProcessIsSaidToBeIncomplete) {
  Sample("0.spool", 0, kStep, /*ends=*/false);
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  const Report report = Make();
  EXPECT_FALSE(report.processes[0].complete);
  EXPECT_NE(FormatReport(report).find("incomplete: python3 (pid 100, rank 0): no end: it was killed or still runs"),
            std::string::npos)
      << FormatReport(report);
}

// A call names one decision; each of them counts, with its own bytes, and so do those that no call was about.
TEST_F(ReportTest, EveryDecisionCounts) {
  Sample("0.spool", 0);
  BuildWell();
  const auto of = [](const Report& report, const std::string& name) {
    for (const DecisionReport& decision : report.processes[0].decisions) {
      if (decision.name == name) return decision;
    }
    return DecisionReport();
  };
  EXPECT_EQ(of(Make(), "transfer.sync.skipped").calls, kSteps + 1);
  Execute(database_, "DELETE FROM SLIPSTREAM_DECISION_EVENTS");
  EXPECT_EQ(of(Make(), "transfer.sync.skipped").calls, kSteps + 1) << "by the calls, as older databases have it";
  const std::string in_step = std::to_string(FirstMeasured() + 200);
  const std::string before = std::to_string(FirstMeasured() - 200);
  const std::string skipped = "(SELECT id FROM StringIds WHERE value = 'transfer.sync.skipped')";
  const std::string settled = "(SELECT id FROM StringIds WHERE value = 'transfer.sync.settled.query')";
  Execute(database_, "INSERT INTO SLIPSTREAM_DECISION_EVENTS VALUES (" + in_step + ", 1, 1, 1, NULL, " + skipped +
                         ", 100, 0, 0, 0, NULL), (" + before + ", 1, 1, 1, NULL, " + skipped +
                         ", 11, 0, 0, 0, NULL), (" + in_step + ", 1, 1, 1, NULL, " + settled +
                         ", 0, 30, -30, 1, NULL)");
  const Report report = Make();
  EXPECT_EQ(report.processes[0].decisions.size(), 2U);
  const DecisionReport one = of(report, "transfer.sync.skipped");
  EXPECT_EQ(one.calls, 2U);
  EXPECT_EQ(one.measured_calls, 1U);
  EXPECT_EQ(one.bytes, 111);
  EXPECT_EQ(one.measured_bytes, 100);
  EXPECT_EQ(of(report, "transfer.sync.settled.query").lost, 30);
}

// Within a device they are not the program's at all, and no size of a copy that it could have made otherwise.
TEST_F(ReportTest, CopiesThatSlipstreamMadeAreToldApart) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/false);
  const auto copies = [](const Report& report) {
    for (const DeviceCopyReport& one : report.processes[0].devices.at(0).copies) {
      if (one.kind == 1) return one;
    }
    return DeviceCopyReport();
  };
  EXPECT_EQ(copies(Make()).own_count, 0U);
  EXPECT_EQ(FormatReport(Make()).find("asked for by slipstream"), std::string::npos);
  const std::string own = One("SELECT max(correlationId) FROM SLIPSTREAM_CALLS");
  Execute(database_, "UPDATE SLIPSTREAM_CALLS SET workIsOwn = 1 WHERE correlationId = " + own +
                         "; INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT start + 10, end + 30, deviceId, streamId, " +
                         own +
                         ", globalPid, 1000, 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY"
                         "; INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT start, end, deviceId, streamId, " +
                         own + ", globalPid, 1000, 8 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE bytes = 4096");
  const Report report = Make();
  const DeviceCopyReport one = copies(report);
  const uint64_t steps = report.processes[0].measured_steps;
  EXPECT_EQ(one.count, 2 * steps);
  EXPECT_EQ(one.own_count, steps);
  EXPECT_EQ(one.own_bytes, static_cast<int64_t>(1000 * steps));
  EXPECT_EQ(one.own_time, static_cast<int64_t>(120 * steps));
  EXPECT_EQ(report.processes[0].device_copies.count(1), 1U);
  EXPECT_EQ(report.processes[0].device_copies.count(8), 0U);
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find(std::to_string(2 * steps) + " of " + std::to_string(3 * steps) +
                      " copies were asked for by slipstream"),
            std::string::npos)
      << text;
}

TEST_F(ReportTest, WhatFoundNoRoomIsMissing) {
  Sample("0.spool", 0);
  BuildWell();
  EXPECT_NE(FormatReport(Make()).find("  nothing is missing\n"), std::string::npos);
  Execute(database_,
          "INSERT INTO SLIPSTREAM_FACTS VALUES (1, 'sites.refused', '2'), (1, 'sites.refused', '3'), "
          "(1, 'ranges.refused', '1')");
  const Report report = Make();
  const std::string text = FormatReport(report);
  EXPECT_EQ(text.find("nothing is missing"), std::string::npos);
  EXPECT_NE(text.find("3 lines of the program found no room; 1 NVTX range found no room"), std::string::npos) << text;
}

TEST_F(ReportTest, NoKernelsIsNoZero) {
  Sample("0.spool", 0);
  BuildWell();
  const Report report = Make();
  EXPECT_FALSE(report.kernels_recorded);
  EXPECT_TRUE(report.processes[0].devices.empty());
  EXPECT_NE(FormatReport(report).find("no kernels were recorded"), std::string::npos);
}

// Any calls, on any of three threads, in steps of any kind: what goes through the database adds up to the nanosecond.
class RandomReportTest : public ReportTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(RandomReportTest, EverythingAddsUp) {
  std::mt19937_64 random(GetParam());
  const auto number = [&](uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  };
  const bool apart = number(0, 1) == 0;  // steps do not overlap
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Thread(3, 102, "loader");
    spool.Pass(kBegin);
    for (uint32_t thread = 1; thread <= 3; ++thread) {
      std::vector<tracer::TraceRecord> records;
      const uint64_t count = number(0, 300);
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t start = kBegin + number(0, 20'000);
        const uint64_t length = number(0, 4) == 0 ? number(0, 3000) : number(0, 60);
        records.push_back(Call(static_cast<uint16_t>(number(0, 5)), start, start + length,
                               static_cast<uint32_t>(number(0, 3)), number(0, 1 << 20),
                               static_cast<uint16_t>(number(0, 2))));
      }
      if (thread == 1) {
        uint64_t at = kBegin;
        for (uint64_t i = 0; i < 30; ++i) {
          const uint64_t start = apart ? at + number(0, 200) : kBegin + number(0, 20'000);
          at = start + number(0, 1500);
          records.push_back(tracer::StepRecord(start, at, i));
        }
      }
      std::stable_sort(records.begin(), records.end(),
                       [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
      spool.Records(thread, records);
    }
    spool.End();
  }
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  ASSERT_EQ(process.steps.size(), 30U);
  for (const Step& step : process.steps) {
    EXPECT_EQ(std::accumulate(step.parts.begin(), step.parts.end(), int64_t{0}), step.time()) << step.number;
  }
  int64_t parts = 0;
  for (const Distribution& part : process.parts) parts += part.total;
  EXPECT_EQ(parts, process.step_time.total);
  EXPECT_EQ(process.step_time.count, process.measured_steps);
  EXPECT_EQ(process.measured_steps + process.warm_up_steps + process.dropped_steps, process.steps.size());
  if (!apart) return;
  // The lines of the thread add up to its time in calls, and what is before them to no more than the rest.
  EXPECT_EQ(process.measured_time, process.step_time.total);
  int64_t sites = 0;
  int64_t gaps = 0;
  for (const SiteReport& site : process.sites) {
    if (site.of_step_thread) sites += site.time;
    gaps += site.gap;
  }
  const int64_t outside = PartOfAll(process, Part::kElsewhere) + PartOfAll(process, Part::kOutside);
  EXPECT_EQ(sites, process.step_time.total - outside);
  EXPECT_LE(gaps, PartOfAll(process, Part::kOutside));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomReportTest, ::testing::Range(0U, 20U));

// Times, sizes and grids at the ends of what a number can be, steps that end before they begin, ids of nobody.
TEST_F(ReportTest, NumbersThatNobodyWouldBelieve) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  const std::string most = "9223372036854775807";
  const std::string least = "-9223372036854775807";
  Execute(database_,
          "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = " + most + " WHERE correlationId = 3;" +
              "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = " + least + ", nameId = 77 WHERE correlationId = 4;" +
              "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = " + least + " WHERE correlationId = 5;" +
              "UPDATE SLIPSTREAM_CALLS SET bytes = " + most + ", siteId = " + most + ";" +
              "UPDATE SLIPSTREAM_CALLS SET processId = 9 WHERE correlationId = 6;" +
              "UPDATE SLIPSTREAM_DECISIONS SET savedNs = " + least + ", bytes = " + most + ", decisionId = 12345678;" +
              "UPDATE SLIPSTREAM_DECISION_EVENTS SET savedNs = " + least + ", bytes = " + most + ";" +
              "UPDATE SLIPSTREAM_STEPS SET end = " + least + " WHERE number = 3;" +
              "UPDATE SLIPSTREAM_STEPS SET start = " + least + ", end = " + most + " WHERE number = 4;" +
              "UPDATE SLIPSTREAM_MEMORY SET liveBytes = " + most + ", idleBytes = " + least + ";" +
              "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = " + most + ", gridY = " + most + ", gridZ = " + most +
              ", blockX = " + least + ", deviceId = " + most + ", globalPid = " + most + ";" +
              "UPDATE TARGET_INFO_GPU SET smCount = " + least + ", maxWarpsPerSm = " + most + ";" +
              "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = " + most + ", copyKind = " + most + ", end = " + most);
  const Report report = Make({.timeline = true});
  for (const Step& step : report.processes[0].steps) {
    EXPECT_EQ(std::accumulate(step.parts.begin(), step.parts.end(), int64_t{0}), step.time()) << step.number;
  }
  EXPECT_NE(FormatReport(report), "");
  EXPECT_NE(ReportJson(report, false), "");
  EXPECT_NE(ReportHtml(report, "js"), "");
}

TEST_F(ReportTest, LaunchesThroughTheDriverAreNotSeenWithoutItsHooksOrDevices) {
  const std::string launches = "kernels launched through the driver (Triton, torch.compile): not recorded either";
  const std::string own = "libraries with a CUDA runtime of their own";
  Sample("0.spool", 0);
  BuildWell();
  EXPECT_NE(FormatReport(Make()).find(launches), std::string::npos) << FormatReport(Make());
  EXPECT_NE(ReportJson(Make(), false).find("\"intercept\": null"), std::string::npos);
  Execute(database_, "INSERT INTO SLIPSTREAM_FACTS VALUES (1, 'intercept', 'runtime')");
  EXPECT_NE(FormatReport(Make()).find(launches), std::string::npos);
  Execute(database_, "UPDATE SLIPSTREAM_FACTS SET value = 'driver' WHERE key = 'intercept'");
  EXPECT_EQ(FormatReport(Make()).find(launches), std::string::npos) << FormatReport(Make());
  EXPECT_EQ(FormatReport(Make()).find(own), std::string::npos);
  EXPECT_NE(ReportJson(Make(), false).find("\"intercept\": \"driver\""), std::string::npos);
  Execute(
      database_,
      "UPDATE SLIPSTREAM_FACTS SET value = 'runtime' WHERE key = 'intercept'; INSERT INTO SLIPSTREAM_DEVICE_PERIODS "
      "SELECT processId, firstNs, lastNs FROM SLIPSTREAM_PROCESSES");
  EXPECT_EQ(FormatReport(Make()).find(launches), std::string::npos) << "devices were recorded, and have them";
  EXPECT_NE(FormatReport(Make()).find(own), std::string::npos);
}

// A process with calls whose lines and steps are not known.
TEST_F(ReportTest, WithoutStepsItSaysWhy) {
  const auto why = [this](const std::string& fact) {
    std::filesystem::remove(run_ + "/0.spool");
    std::filesystem::remove(database_);
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    if (!fact.empty()) spool.Facts({{"python_lines", "read: CPython 3.9.1"}, {"python_lines", fact}});
    spool.Pass(kBegin);
    spool.Records(
        1, {Call(kLaunchHook, kBegin, kBegin + 10, kNoSite), Call(kLaunchHook, kBegin + 20, kBegin + 30, kNoSite)});
    spool.End();
    BuildWell();
    return Make();
  };
  const Report unsupported = why("unsupported: this is a free-threaded CPython 3.14.2");
  const std::string sentence = "Python lines: none, this is a free-threaded CPython 3.14.2 (not supported)";
  EXPECT_FALSE(unsupported.processes[0].has_steps);
  EXPECT_EQ(unsupported.processes[0].why_no_steps, sentence);
  const auto flat = [](const Report& report) {
    std::string text = FormatReport(report);
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
      const size_t next = text.find_first_not_of(' ', at + 1);
      text.replace(at, (next == std::string::npos ? text.size() : next) - at, " ");
    }
    return text;
  };
  EXPECT_NE(flat(unsupported).find("no steps were found (" + sentence + "), so this"), std::string::npos)
      << FormatReport(unsupported);
  EXPECT_NE(flat(unsupported).find("lines: 2 of 2 calls have none ("), std::string::npos) << FormatReport(unsupported);
  EXPECT_NE(flat(unsupported).find("); " + sentence), std::string::npos) << FormatReport(unsupported);
  const std::string figures = ReportJson(unsupported, false);
  EXPECT_NE(figures.find("\"why_none\": \"" + sentence + "\""), std::string::npos) << figures;

  EXPECT_EQ(why("read: CPython 3.14.2").processes[0].why_no_steps,
            "no call was made at a line of the program that is known");
  EXPECT_EQ(why("read: CPython 3.14.2").processes[0].no_lines, "");
  EXPECT_EQ(why("").processes[0].why_no_steps, "");  // an older trace
}

TEST_F(ReportTest, ARunWithoutCalls) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.End();
  }
  BuildWell();
  const Report report = Make({.timeline = true});
  ASSERT_EQ(report.processes.size(), 1U);
  EXPECT_EQ(report.processes[0].calls, 0U);
  EXPECT_NE(FormatReport(report).find("no steps were found"), std::string::npos);
  EXPECT_NE(ReportHtml(report, "js"), "");
}

}  // namespace
}  // namespace slipstream::report
