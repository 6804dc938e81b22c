// The figures of a trace that is known to the nanosecond, and of ones that nobody would believe.

#include "tools/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/report/report_testing.h"
#include "tools/report/html.h"
#include "tools/report/json.h"
#include "tools/report/text.h"

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
  EXPECT_EQ(sites[0].gap, 350 * kCount);
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
  EXPECT_EQ(process.decisions[0].name, "transfer.paid.query");
  EXPECT_EQ(process.decisions[0].calls, kSteps + 1);
  EXPECT_EQ(process.decisions[0].measured_calls, kSteps);
  EXPECT_EQ(process.decisions[0].saved, 0);
  EXPECT_EQ(process.decisions[0].lost, 60 * static_cast<int64_t>(kSteps + 1));
  EXPECT_EQ(process.decisions[1].name, "transfer.skipped");
  EXPECT_EQ(process.decisions[1].meaning, "synchronises skipped");
  EXPECT_EQ(process.decisions[1].lost, 0);
  ASSERT_EQ(process.memory.size(), 1U);
  EXPECT_EQ(process.memory[0].peak_live, 4096);
  EXPECT_EQ(process.memory[0].peak_idle, 9000);
  EXPECT_EQ(process.memory[0].peak, 1024 + 9000);
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
  // The host meanwhile: copying, synchronising, allocating, launching, in other calls, outside.
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
  EXPECT_EQ(report.spread->fastest, 0U);
  EXPECT_EQ(report.spread->slowest, 1U);
  EXPECT_EQ(report.spread->difference, 200);
  EXPECT_NE(FormatReport(report).find("slowest: rank 1, 200 ns a step (20.0 %) behind rank 0 in the median"),
            std::string::npos)
      << FormatReport(report);
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
    // Another thread's is none of the step thread's time.
    other.push_back(tracer::DropRecord(kBegin + 10, kBegin + 20, 1, 1));
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.End();
  }
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  const Report report = Make();
  const ProcessReport& process = report.processes[0];
  EXPECT_EQ(process.dropped_steps, 1U);
  EXPECT_EQ(process.measured_steps, kSteps - 1);
  EXPECT_EQ(process.steps[3].use, StepUse::kDropped);
  EXPECT_EQ(process.drop_gaps, 2U);
  EXPECT_EQ(process.measured_time, (kSteps - 1) * kStep);
  EXPECT_NE(FormatReport(report).find("1 step with dropped records, left out"), std::string::npos);
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
  EXPECT_LE(gaps, outside);
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
  EXPECT_NE(ReportHtml(report), "");
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
  EXPECT_NE(ReportHtml(report), "");
}

}  // namespace
}  // namespace slipstream::report
