// Which lines a device is idle for: against a search of every single nanosecond, and of a trace that is known.

#include "tools/trace/report/idle_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/report/report_testing.h"
#include "tests/report/sweep_testing.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/sweep.h"
#include "tools/trace/report/text.h"

namespace slipstream::report {
namespace {

class IdleSweepTest : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr int64_t kEnd = 150;
  static constexpr size_t kSites = 6;  // the first half are of the step thread

  int64_t Number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  std::vector<Event> Events() {
    std::vector<Event> events;
    const int64_t count = Number(0, 40);
    for (int64_t i = 0; i < count; ++i) {
      Event event;
      event.sort = static_cast<Event::Sort>(Number(0, 3));
      event.start = Number(0, kEnd - 1);
      event.end = std::min(kEnd, event.start + Number(0, 12));
      event.kind = static_cast<CallKind>(Number(0, kCallKinds - 1));
      event.site = static_cast<size_t>(Number(0, kSites / 2 - 1)) + (event.sort == Event::kOtherCall ? kSites / 2 : 0);
      event.communicates = Number(0, 1) == 0;
      events.push_back(event);
    }
    Sort(&events);
    return events;
  }

 private:
  std::mt19937_64 random_{GetParam()};
};

// The call that has a moment: the first that began.
const Event* Holder(const std::vector<Event>& events, Event::Sort sort, int64_t t) {
  const Event* holder = nullptr;
  int64_t until = 0;
  for (const Event& event : events) {
    if (event.sort != sort) continue;
    // It has what is left by those before it.
    const int64_t from = std::max(event.start, until);
    if (event.end > from) {
      if (from <= t && t < event.end) holder = &event;
      until = event.end;
    }
  }
  return holder;
}

const Event* NextToEndIdleTime(const std::vector<Event>& events, int64_t t) {
  const auto next = std::find_if(events.begin(), events.end(), [&](const Event& event) {
    const bool ends_idle_time =
        event.sort == Event::kOwnCall || (event.sort == Event::kOtherCall && event.kind != CallKind::kOther);
    return ends_idle_time && event.start > t;
  });
  return next == events.end() ? nullptr : &*next;
}

bool RunsAt(const std::vector<Event>& events, Event::Sort sort, int64_t t, bool communicates) {
  return std::any_of(events.begin(), events.end(), [&](const Event& event) {
    return event.sort == sort && event.communicates == communicates && event.Covers(t);
  });
}

TEST_P(IdleSweepTest, LinesAndBusyTimesAddUpToTheStep) {
  for (int round = 0; round < 40; ++round) {
    const std::vector<Event> events = Events();
    std::vector<Step> steps(2);
    steps[0] = {.number = 0, .start = Number(0, 60), .end = 0};
    steps[0].end = steps[0].start + Number(0, 60);
    steps[1] = {.number = 1, .start = steps[0].end + Number(0, 5), .end = kEnd};
    Sweep sweep(&steps);
    for (const Event& event : events) {
      if (event.sort == Event::kKernel) {
        sweep.Kernel(0, {event.start, event.end, 1, event.communicates}, 0);
      } else if (event.sort == Event::kCopy) {
        sweep.Copy(0, event.start, event.end);
      } else {
        sweep.Call(event.sort == Event::kOwnCall, event.start, event.end, event.kind, event.site);
      }
    }
    sweep.Finish();
    std::map<std::pair<size_t, size_t>, int64_t> lines;  // site, host
    int64_t computing = 0;
    int64_t overlapped = 0;
    int64_t exposed = 0;
    int64_t copying = 0;
    int64_t measured = 0;
    for (int64_t t = 0; t < kEnd; ++t) {
      const bool in =
          std::any_of(steps.begin(), steps.end(), [&](const Step& step) { return step.start <= t && t < step.end; });
      if (!in) continue;
      ++measured;
      const bool computes = RunsAt(events, Event::kKernel, t, false);
      const bool communicates = RunsAt(events, Event::kKernel, t, true);
      if (computes || communicates) {
        ++(!communicates ? computing : computes ? overlapped : exposed);
        continue;
      }
      if (RunsAt(events, Event::kCopy, t, false) || RunsAt(events, Event::kCopy, t, true)) {
        ++copying;
        continue;
      }
      const Event* call = Holder(events, Event::kOwnCall, t);
      if (call == nullptr) call = Holder(events, Event::kOtherCall, t);
      const Event* const next = NextToEndIdleTime(events, t);
      if (call != nullptr) {
        ++lines[{call->site, static_cast<size_t>(call->kind)}];
      } else if (next != nullptr) {
        ++lines[{next->site, kHostOutside}];
      }
    }
    const DeviceTimes& times = sweep.device(0);
    EXPECT_EQ(times.computing_only(), computing);
    EXPECT_EQ(times.communication_overlapped(), overlapped);
    EXPECT_EQ(times.communication_alone, exposed);
    EXPECT_EQ(times.copies_alone, copying);
    EXPECT_EQ(times.computing_only() + times.communication_overlapped() + times.communication_alone +
                  times.copies_alone + std::accumulate(times.idle.begin(), times.idle.end(), int64_t{0}),
              measured);
    for (size_t host = 0; host < kHostStates; ++host) {
      int64_t sum = 0;
      for (size_t site = 0; site < kSites; ++site) {
        const auto expected = lines.find({site, host});
        EXPECT_EQ(sweep.idle_lines(0).Of(site, host), expected == lines.end() ? 0 : expected->second)
            << "site " << site << ", host " << host;
        sum += sweep.idle_lines(0).Of(site, host);
      }
      // Behind the last call of all no line has it.
      if (host == kHostOutside) {
        EXPECT_LE(sum, times.idle[host]);
      } else {
        EXPECT_EQ(sum, times.idle[host]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, IdleSweepTest, ::testing::Range(0U, 30U));

// A device that comes late was idle before, for the lines that there were.
TEST(IdleLinesTest, OfADeviceThatComesLate) {
  std::vector<Step> steps(1);
  steps[0] = {.number = 0, .start = 0, .end = 100};
  Sweep sweep(&steps);
  sweep.Call(true, 10, 30, CallKind::kCopy, 0);
  sweep.Call(false, 40, 45, CallKind::kLaunch, 1);
  sweep.Kernel(0, {60, 70, 1, false}, 0);
  sweep.Call(true, 90, 95, CallKind::kSynchronize, 2);
  sweep.Finish();
  const IdleLines& lines = sweep.idle_lines(0);
  EXPECT_EQ(lines.Of(0, kHostOutside), 10);
  EXPECT_EQ(lines.Of(0, static_cast<size_t>(CallKind::kCopy)), 20);
  EXPECT_EQ(lines.Of(1, kHostOutside), 10);
  EXPECT_EQ(lines.Of(1, static_cast<size_t>(CallKind::kLaunch)), 5);
  EXPECT_EQ(lines.Of(2, kHostOutside), 15 + 20);
  EXPECT_EQ(lines.Of(2, static_cast<size_t>(CallKind::kSynchronize)), 5);
  EXPECT_EQ(lines.Of(3, kHostOutside), 0);
}

class IdleReportTest : public ReportTest {};

// The device runs from 50 to 150 and from 350 to 700 of each step; calls are as AddStep has them.
TEST_F(IdleReportTest, LinesOfAKnownTrace) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  const Report report = Make();
  const DeviceReport& device = report.processes.at(0).devices.at(0);
  constexpr auto kCount = static_cast<int64_t>(kSteps);
  using Row = std::tuple<size_t, bool, int64_t, int64_t>;  // host, no call, line, time
  std::vector<Row> rows;
  for (const IdleLineReport& idle : device.idle_lines) {
    rows.emplace_back(idle.host, idle.no_call, idle.line.line.value_or(0), idle.time);
    EXPECT_EQ(idle.before_call, idle.host == kHostOutside && !idle.no_call);
  }
  const auto host = [](CallKind kind) { return static_cast<size_t>(kind); };
  EXPECT_EQ(rows, (std::vector<Row>{{host(CallKind::kSynchronize), false, 30, 200 * kCount},
                                    {kHostOutside, false, 20, 150 * kCount},
                                    {kHostOutside, false, 10, 100 * (kCount - 1)},
                                    {host(CallKind::kCopy), false, 10, 50 * kCount},
                                    {host(CallKind::kLaunch), false, 20, 40 * kCount},
                                    {kHostOutside, true, 0, 100},
                                    {host(CallKind::kAllocator), false, 20, 10 * kCount}}));
}

TEST_F(IdleReportTest, TheJsonAndTheScreenAddUp) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  const Report report = Make();
  const nlohmann::json device = nlohmann::json::parse(ReportJson(report, false))["processes"][0]["devices"][0];
  std::map<std::string, int64_t> sums;
  for (const nlohmann::json& idle : device["idle_by_line"]) {
    sums[idle["while_host_in"].get<std::string>()] += idle["time_ns"].get<int64_t>();
  }
  int64_t all = 0;
  for (const auto& [host, time] : device["idle_ns_while_host_in"].items()) {
    EXPECT_EQ(sums[host], time.get<int64_t>()) << host;
    all += time.get<int64_t>();
  }
  EXPECT_EQ(device["computing_only_ns"].get<int64_t>() + device["communication_overlapped_ns"].get<int64_t>() +
                device["communication_alone_ns"].get<int64_t>() + device["copies_alone_ns"].get<int64_t>() + all,
            static_cast<int64_t>(kSteps * kStep));
  const std::string text = FormatReport(report);
  const std::string row = "    while the host was outside CUDA calls";
  const size_t at = text.find(row);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(
      text.find("\n      before /job/train.py:20 (step)" + std::string(41 - 36 + 4, ' ') + "150 ns   15.0 %\n", at),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("\n      before other calls, or none", at), std::string::npos) << text;
}

// Autograd's calls have a line, which is not one of the thread that makes the steps.
TEST_F(IdleReportTest, LinesOfOtherThreadsAreMarked) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  // Without kernels the device is idle from 400 to 500, while the other thread is in its launch.
  Execute(
      database_,
      "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid NOT IN (SELECT min(rowid) FROM CUPTI_ACTIVITY_KIND_KERNEL);"
      "UPDATE SLIPSTREAM_CALLS SET siteId = (SELECT siteId FROM SLIPSTREAM_SITES WHERE line = 20) WHERE thread = 2");
  const Report report = Make();
  const DeviceReport& device = report.processes.at(0).devices.at(0);
  int64_t time = 0;
  for (const IdleLineReport& idle : device.idle_lines) {
    if (!idle.line.of_step_thread && !idle.before_call) time += idle.time;
  }
  EXPECT_EQ(time, 100 * static_cast<int64_t>(kSteps - 1));
  EXPECT_NE(FormatReport(report).find("      /job/train.py:20 (step)" + std::string(41 - 29 + 5, ' ') +
                                      "88 ns    8.8 %  [other threads]\n"),
            std::string::npos)
      << FormatReport(report);
}

}  // namespace
}  // namespace slipstream::report
