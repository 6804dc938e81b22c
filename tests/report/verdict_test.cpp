// What a report comes to, of reports that are made by hand, and that it says what the tables say.

#include "tools/trace/report/verdict.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/report/report_testing.h"
#include "tests/support/process.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/text.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::report {
namespace {

constexpr int64_t kTen = 10;  // steps, of one ms each

LineReport Line(int64_t line, bool of_step_thread = true) {
  return {.known = true, .of_step_thread = of_step_thread, .file = "train.py", .line = line, .function = "step"};
}

// A process with ten steps of a ms, and a device that has done nothing.
Report OneProcess() {
  Report report;
  report.has_own_tables = true;
  report.kernels_recorded = true;
  report.device_copies_recorded = true;
  ProcessReport& process = report.processes.emplace_back();
  process.executable = "/usr/bin/python3";
  process.pid = 7;
  process.has_steps = true;
  process.measured_steps = kTen;
  process.measured_time = kTen * kMs;
  process.step_time = DistributionOf(std::vector<int64_t>(kTen, kMs));
  process.devices.emplace_back();
  return report;
}

DeviceReport& DeviceOf(Report* report) { return report->processes[0].devices[0]; }

// Idle for so long while the host is at that, and lines of it.
void Idle(Report* report, size_t host, int64_t time, std::vector<IdleLineReport> lines = {}) {
  DeviceOf(report).times.idle[host] = time;
  for (IdleLineReport& line : lines) DeviceOf(report).idle_lines.push_back(std::move(line));
}

std::string Say(const Report& report) {
  const std::optional<Verdict> verdict = VerdictOf(report);
  return verdict ? VerdictSentence(report, *verdict) : "none";
}

VerdictKind KindOf(const Report& report) { return VerdictOf(report).value().kind; }

TEST(VerdictTest, GpuBoundNamesTheLineElseTheKernel) {
  Report report = OneProcess();
  DeviceReport& device = DeviceOf(&report);
  device.times.kernels = 9'500'000;
  device.kernel_time = 9'500'000;
  Idle(&report, kHostOutside, 500'000);
  device.top.push_back({.name = "softmax", .launches = 10, .time = 3 * kMs});
  EXPECT_EQ(KindOf(report), VerdictKind::kGpuBound);
  EXPECT_EQ(Say(report), "GPU busy 95.0 % of a step of 1.00 ms; most in softmax: 300 us (31.6 % of kernel time)");
  // What no line is known of is passed over.
  device.kernel_lines.push_back({.call_known = false, .line = {}, .launches = 1, .time = 5 * kMs, .top_kernel = "a"});
  device.kernel_lines.push_back({.call_known = true, .line = {}, .launches = 1, .time = 4'500'000, .top_kernel = "b"});
  device.kernel_lines.push_back(
      {.call_known = true, .line = Line(82), .launches = 1, .time = 4 * kMs, .top_kernel = "gemm", .top_time = kMs});
  EXPECT_EQ(Say(report),
            "GPU busy 95.0 % of a step of 1.00 ms; most in kernels of train.py:82 (step): 400 us (42.1 % of kernel "
            "time), first of them gemm");
}

// What has one small kernel at a time is busy, and mostly empty.
TEST(VerdictTest, AMeanThatIsNotTheMedianIsNamed) {
  Report report = OneProcess();
  DeviceReport& device = DeviceOf(&report);
  device.times.kernels = 95 * kMs / 10;
  device.kernel_time = device.times.kernels;
  report.processes[0].step_time =
      DistributionOf({kMs / 2, kMs / 2, kMs / 2, kMs / 2, kMs / 2, kMs / 2, kMs / 2, kMs / 2, kMs / 2, 11 * kMs / 2});
  EXPECT_EQ(Say(report), "GPU busy 95.0 % of a step of 1.00 ms on average (median 500 us)");
}

TEST(VerdictTest, BusyOnAFewOfItsMultiprocessors) {
  Report report = OneProcess();
  DeviceReport& device = DeviceOf(&report);
  device.times.kernels = 9'500'000;
  device.sm_efficiency = 0.19;
  EXPECT_EQ(Say(report), "GPU busy 95.0 % of a step of 1.00 ms, on about 20.0 % of its SMs");
  device.sm_efficiency = 0.48;
  EXPECT_EQ(Say(report), "GPU busy 95.0 % of a step of 1.00 ms");
}

// Of many losses, none has 5 % of the time.
TEST(VerdictTest, NothingThatIsWorthAWord) {
  Report report = OneProcess();
  DeviceOf(&report).times.kernels = 8'000'000;
  for (size_t host = 0; host < kHostStates; ++host) Idle(&report, host, 2 * kMs / 6);
  EXPECT_EQ(KindOf(report), VerdictKind::kGpuBound);
  Idle(&report, kHostOutside, 600'000);
  EXPECT_EQ(KindOf(report), VerdictKind::kOutsideCalls);
}

TEST(VerdictTest, IdleWhileTheHostWasOutside) {
  Report report = OneProcess();
  DeviceOf(&report).times.kernels = 3'900'000;
  Idle(&report, static_cast<size_t>(CallKind::kLaunch), kMs,
       {{.host = static_cast<size_t>(CallKind::kLaunch), .line = Line(20), .time = kMs}});
  Idle(&report, kHostOutside, 5'100'000,
       {{.host = kHostOutside, .before_call = true, .line = {}, .time = 900'000},
        {.host = kHostOutside, .before_call = true, .line = Line(82), .time = 800'000},
        {.host = kHostOutside, .before_call = true, .line = Line(83), .time = 700'000}});
  const Verdict verdict = VerdictOf(report).value();
  EXPECT_EQ(verdict.kind, VerdictKind::kOutsideCalls);
  EXPECT_EQ(verdict.bottleneck, VerdictKind::kOutsideCalls);
  EXPECT_EQ(verdict.time, 5'100'000);
  EXPECT_EQ(verdict.whole, 10 * kMs);
  EXPECT_EQ(verdict.per_step, 510'000);
  EXPECT_EQ(verdict.busy, 3'900'000);
  EXPECT_EQ(verdict.line.value().line, 82);
  EXPECT_TRUE(verdict.before_line);
  EXPECT_EQ(verdict.line_time, 800'000);
  EXPECT_EQ(Say(report),
            "GPU busy 39.0 % of a step of 1.00 ms; idle for 510 us (51.0 %) while the host was outside CUDA calls "
            "(Python, PyTorch or the loader), 80.0 us of it before train.py:82 (step)");
  report.device_copies_recorded = false;
  EXPECT_NE(Say(report).find("; idle or copying for 510 us"), std::string::npos) << Say(report);
}

TEST(VerdictTest, IdleWhileTheHostWasInCalls) {
  const std::vector<std::tuple<CallKind, VerdictKind, std::string>> cases = {
      {CallKind::kLaunch, VerdictKind::kLaunching, "launching (launch-bound)"},
      {CallKind::kSynchronize, VerdictKind::kSynchronizing, "synchronizing"},
      {CallKind::kCopy, VerdictKind::kInCopy, "in a copy"},
      {CallKind::kAllocator, VerdictKind::kAllocating, "allocating or freeing"},
      {CallKind::kOther, VerdictKind::kOtherCalls, "in another CUDA call"}};
  for (const auto& [call, kind, words] : cases) {
    const auto host = static_cast<size_t>(call);
    Report report = OneProcess();
    DeviceOf(&report).times.kernels = 7 * kMs;
    Idle(&report, kHostOutside, kMs);
    Idle(&report, host, 2 * kMs,
         {{.host = kHostOutside, .before_call = true, .line = Line(1), .time = kMs},
          {.host = host, .line = Line(81, /*of_step_thread=*/false), .time = kMs}});
    EXPECT_EQ(KindOf(report), kind);
    EXPECT_EQ(Say(report), "GPU busy 70.0 % of a step of 1.00 ms; idle for 200 us (20.0 %) while the host was " +
                               words + ", 100 us of it at train.py:81 (step) [other threads]");
  }
}

TEST(VerdictTest, WhatNoKernelHides) {
  Report report = OneProcess();
  DeviceTimes& times = DeviceOf(&report).times;
  times.kernels = 6 * kMs;
  times.copies_alone = 3 * kMs;
  times.copies = 3 * kMs;
  Idle(&report, kHostOutside, kMs);
  EXPECT_EQ(KindOf(report), VerdictKind::kExposedCopies);
  EXPECT_EQ(Say(report),
            "GPU busy 60.0 % of a step of 1.00 ms; for 300 us (30.0 %) it only copied or set memory, which no kernel "
            "hides");
  // Busy all the time, but with nothing to show for a third of it.
  times = {};
  times.kernels = 10 * kMs;
  times.communication = 5 * kMs;
  times.communication_alone = 3 * kMs;
  EXPECT_EQ(KindOf(report), VerdictKind::kExposedCommunication);
  EXPECT_EQ(Say(report),
            "GPU busy 100.0 % of a step of 1.00 ms; for 300 us (30.0 %) it communicated and computed nothing");
}

TEST(VerdictTest, PausesThatAreWorseThanAnythingInAStep) {
  Report report = OneProcess();
  ProcessReport& process = report.processes[0];
  DeviceOf(&report).times.kernels = 9'500'000;
  Idle(&report, kHostOutside, 500'000);
  process.pause_time = DistributionOf(std::vector<int64_t>(9, 9 * kMs));
  process.pace = DistributionOf(std::vector<int64_t>(9, 10 * kMs));
  EXPECT_EQ(KindOf(report), VerdictKind::kBetweenSteps);
  EXPECT_EQ(Say(report),
            "9.00 ms lie between two steps, 90.0 % of the time from one to the next (10.0 ms): a loader, or what the "
            "loop does outside its steps; in the steps GPU busy 95.0 % of a step of 1.00 ms");
  process.wall.parts.push_back({.part = WallPart::kBetween, .time = 81 * kMs, .count = 9, .most = std::nullopt});
  process.wall.parts[0].most =
      Place{.file = "train.py", .line = 9, .function = "main", .before = true, .time = 70 * kMs};
  EXPECT_NE(Say(report).find("outside its steps, most of it before train.py:9 (main); in the steps GPU"),
            std::string::npos)
      << Say(report);
  EXPECT_EQ(VerdictOf(report).value().line_time, 70 * kMs);
  // Shorter than what is lost within.
  DeviceOf(&report).times.kernels = 2 * kMs;
  Idle(&report, kHostOutside, 8 * kMs);
  process.pause_time = DistributionOf(std::vector<int64_t>(9, kMs / 2));
  process.pace = DistributionOf(std::vector<int64_t>(9, kMs + kMs / 2));
  EXPECT_EQ(KindOf(report), VerdictKind::kOutsideCalls);
}

TEST(VerdictTest, WithoutDevicesOfTheHost) {
  Report report = OneProcess();
  ProcessReport& process = report.processes[0];
  process.devices.clear();
  report.kernels_recorded = false;
  process.parts[static_cast<size_t>(Part::kOutside)] = DistributionOf(std::vector<int64_t>(kTen, 790'000));
  process.parts[static_cast<size_t>(Part::kCopies)] = DistributionOf(std::vector<int64_t>(kTen, 210'000));
  SiteReport site;
  site.known = true;
  site.file = "train.py";
  site.line = 82;
  site.gap = 6 * kMs;
  process.sites = {SiteReport{}, site};
  process.sites[0].gap = 7 * kMs;
  EXPECT_EQ(KindOf(report), VerdictKind::kDevicesNotKnown);
  EXPECT_EQ(Say(report),
            "what the GPU did was not recorded (tracer.device was off, or CUPTI was not there); of a step of 1.00 ms "
            "the longest part is outside CUDA calls, 790 us (79.0 %), 600 us of it before train.py:82");
  process.no_devices = "a profiler is attached: X is set";
  EXPECT_TRUE(
      Say(report).starts_with("what the GPU did was not recorded (a profiler is attached: X is set); of a step"))
      << Say(report);
  process.no_devices.clear();
  process.devices_recorded = true;
  EXPECT_TRUE(Say(report).starts_with("no kernel ran; of a step")) << Say(report);
  process.errors = {{.function = "cudaMalloc", .code = 2, .calls = 7},
                    {.function = "cudaLaunchKernel", .code = 98, .calls = 1},
                    {.function = "cuLaunchKernelEx", .code = 209, .calls = 2}};
  EXPECT_TRUE(Say(report).starts_with("no kernel ran: 3 launches failed (see \"failed\" below); of a step"))
      << Say(report);
  report.kernels_recorded = true;
  EXPECT_TRUE(Say(report).starts_with("none of its kernels are in the trace; of a step")) << Say(report);
  process.unwatched_everywhere = true;
  EXPECT_TRUE(Say(report).starts_with("what the GPU did is not known, as devices were recorded in no step"))
      << Say(report);
}

TEST(VerdictTest, WhatIsSaidFirst) {
  Report report = OneProcess();
  ProcessReport& process = report.processes[0];
  DeviceOf(&report).times.kernels = 4 * kMs;
  Idle(&report, kHostOutside, 6 * kMs);
  const std::string alone = Say(report);
  EXPECT_TRUE(alone.starts_with("GPU busy 40.0 % of a step of 1.00 ms; idle for 600 us")) << alone;
  // That somebody killed it says nothing against the figures.
  process.complete = false;
  EXPECT_EQ(Say(report), alone);
  process.dropped = 1;
  EXPECT_TRUE(VerdictOf(report).value().records_missing);
  EXPECT_EQ(Say(report), "RECORDS ARE MISSING (see below), so this is of what is left: " + alone);
  process.dropped = 0;
  // Of all that was recorded.
  process.has_steps = false;
  process.why_no_steps = "no lines";
  EXPECT_EQ(KindOf(report), VerdictKind::kNoSteps);
  EXPECT_EQ(VerdictOf(report).value().bottleneck, VerdictKind::kOutsideCalls);
  EXPECT_EQ(Say(report),
            "no steps were found (no lines); GPU busy 40.0 % of the recorded 10.0 ms; idle for 6.00 ms (60.0 %) while "
            "the host was outside CUDA calls (Python, PyTorch or the loader)");
  process.measured_time = 0;
  EXPECT_EQ(VerdictOf(report).value().bottleneck, VerdictKind::kNothing);
  EXPECT_TRUE(Say(report).ends_with("no time was measured")) << Say(report);
  EXPECT_EQ(Say(Report{}), "none");
  EXPECT_EQ(VerdictText(Report{}, kPageColumns), "");
}

TEST(VerdictTest, OfSeveralProcessesTheShownOne) {
  Report report = OneProcess();
  DeviceOf(&report).times.kernels = 4 * kMs;
  Idle(&report, kHostOutside, 6 * kMs);
  const std::string alone = Say(report);
  report.processes.push_back(report.processes[0]);
  report.processes[0].rank = 0;
  report.processes[1].rank = 1;
  report.shown = 1;
  EXPECT_EQ(Say(report), "of rank 1: " + alone);
  EXPECT_EQ(VerdictOf(report).value().process, 1U);
  report.slowest = Slowest{.process = 1, .than = 0, .by = Slowest::By::kCommunication, .difference = 70'000};
  EXPECT_EQ(KindOf(report), VerdictKind::kSlowRank);
  EXPECT_EQ(VerdictOf(report).value().bottleneck, VerdictKind::kOutsideCalls);
  EXPECT_EQ(Say(report),
            "rank 0 waits for rank 1, 70.0 us a step longer in kernels that communicate; of rank 1: " + alone);
  report.slowest->by = Slowest::By::kStepTime;
  EXPECT_EQ(Say(report), "rank 1 is the slowest, 70.0 us a step behind rank 0 in the median; of it: " + alone);
  report.slowest->by = Slowest::By::kOutsideWaits;
  EXPECT_EQ(
      Say(report),
      "rank 1 waits least, and is 70.0 us a step longer outside copies and synchronizations than rank 0; of it: " +
          alone);
}

// Of several devices the one that ran kernels longest.
TEST(VerdictTest, OfSeveralDevicesTheBusiest) {
  Report report = OneProcess();
  DeviceOf(&report).times.kernels = kMs;
  DeviceReport& second = report.processes[0].devices.emplace_back();
  second.device = 3;
  second.times.kernels = 8 * kMs;
  second.times.idle[kHostOutside] = 2 * kMs;
  EXPECT_EQ(VerdictOf(report).value().device, 1U);
  EXPECT_TRUE(Say(report).starts_with("GPU 3 busy 80.0 % of a step of 1.00 ms; idle for 200 us (20.0 %)"))
      << Say(report);
}

// By the time in which any kernel ran: two streams side by side are no more than one.
TEST(VerdictTest, KernelsBesideEachOtherCountOnce) {
  Report report = OneProcess();
  DeviceOf(&report).times.kernels = 10 * kMs;
  DeviceOf(&report).kernel_time = 10 * kMs;
  DeviceReport& second = report.processes[0].devices.emplace_back();
  second.device = 1;
  second.times.kernels = 6 * kMs;
  second.kernel_time = 12 * kMs;
  EXPECT_EQ(VerdictOf(report).value().device, 0U);
  second.times.kernels = 10 * kMs;
  EXPECT_EQ(VerdictOf(report).value().device, 1U) << "as long, and more in it";
  report.processes[0].devices.clear();
  EXPECT_FALSE(VerdictOf(report).value().device);
}

class VerdictReportTest : public ReportTest {};

TEST_F(VerdictReportTest, TheFirstLineSaysWhatTheTablesSay) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  const Report report = Make();
  const std::string text = FormatReport(report);
  const std::string flat = std::regex_replace(text, std::regex("\n      "), " ");
  const std::string sentence =
      "GPU busy 30.0 % of a step of 1.00 us; idle for 250 ns (25.0 %) while the host was outside CUDA calls (Python, "
      "PyTorch or the loader), 150 ns of it before /job/train.py:20 (step)";
  EXPECT_TRUE(flat.starts_with("VERDICT: " + sentence + "\nslipstream report: train.py\n")) << flat;
  for (const std::string& line : test::Split(text)) EXPECT_LE(line.size(), kPageColumns) << line;
  const nlohmann::json figures = nlohmann::json::parse(ReportJson(report, false));
  const nlohmann::json& verdict = figures["verdict"];
  const nlohmann::json& device = figures["processes"][0]["devices"][0];
  EXPECT_EQ(verdict["sentence"], sentence);
  EXPECT_EQ(verdict["kind"], "outside_of_calls");
  EXPECT_EQ(verdict["bottleneck"], "outside_of_calls");
  EXPECT_EQ(verdict["process"], 0);
  EXPECT_EQ(verdict["device"], device["device"]);
  EXPECT_EQ(verdict["kernels_ns"], device["kernels_ns"]);
  EXPECT_EQ(verdict["time_ns"], device["idle_ns_while_host_in"]["outside_of_calls"]);
  EXPECT_EQ(verdict["share"], device["host_bound"]);
  EXPECT_EQ(verdict["most_at"]["time_ns"], device["idle_by_line"][1]["time_ns"]);
  EXPECT_EQ(verdict["most_at"]["line"], 20);
  EXPECT_EQ(verdict["most_at"]["before_its_calls"], true);
  EXPECT_TRUE(verdict["part"].is_null());
}

TEST_F(VerdictReportTest, OfTheHostWithoutRecordsOfDevices) {
  Sample("0.spool", 0);
  BuildWell();
  const Report report = Make();
  const nlohmann::json figures = nlohmann::json::parse(ReportJson(report, false));
  const nlohmann::json& verdict = figures["verdict"];
  EXPECT_EQ(verdict["kind"], "devices_not_known");
  EXPECT_EQ(verdict["part"], "outside_of_calls");
  EXPECT_EQ(verdict["time_ns"], figures["processes"][0]["steps"]["parts"]["outside_of_calls"]["total_ns"]);
  EXPECT_TRUE(verdict["device"].is_null());
  // Line 30, before which most of it lies.
  EXPECT_EQ(verdict["most_at"]["line"], 30);
  EXPECT_EQ(verdict["most_at"]["time_ns"], 250 * kSteps);
}

}  // namespace
}  // namespace slipstream::report
