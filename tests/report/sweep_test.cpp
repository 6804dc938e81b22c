// Where the time of a process goes, against a search of every single nanosecond.

#include "tools/trace/report/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/report/sweep_testing.h"

namespace slipstream::report {
namespace {

constexpr int64_t kSms = 10;
constexpr size_t kSites = 5;
constexpr size_t kDevices = 2;

Sweep Swept(const std::vector<Event>& events, std::vector<Step>* steps) {
  Sweep sweep(steps);
  for (const Event& event : events) {
    switch (event.sort) {
      case Event::kOwnCall:
      case Event::kOtherCall:
        sweep.Call(event.sort == Event::kOwnCall, event.start, event.end, event.kind, event.site);
        break;
      case Event::kKernel:
        sweep.Kernel(event.device, {event.start, event.end, event.blocks, event.communicates}, kSms);
        break;
      case Event::kCopy:
        sweep.Copy(event.device, event.start, event.end);
        break;
    }
  }
  sweep.Finish();
  return sweep;
}

// What the rules say about one moment, [t, t + 1). Whoever came first has it until its end.
struct Moment {
  const Event* own = nullptr;
  const Event* other = nullptr;
};

std::vector<Moment> Moments(const std::vector<Event>& events, int64_t end) {
  std::vector<Moment> moments(static_cast<size_t>(end));
  const auto fill = [&](Event::Sort sort, const Event* Moment::*of) {
    // Whoever is there first stays.
    for (const Event& event : events) {
      if (event.sort != sort) continue;
      for (int64_t t = event.start; t < event.end; ++t) {
        const Event*& at = moments[static_cast<size_t>(t)].*of;
        if (at == nullptr) at = &event;
      }
    }
  };
  fill(Event::kOwnCall, &Moment::own);
  fill(Event::kOtherCall, &Moment::other);
  return moments;
}

Part PartAt(const Moment& moment) {
  if (moment.own != nullptr) return PartOf(moment.own->kind);
  return moment.other != nullptr ? Part::kElsewhere : Part::kOutside;
}

bool Runs(const std::vector<Event>& events, Event::Sort sort, size_t device, int64_t t) {
  return std::any_of(events.begin(), events.end(), [&](const Event& event) {
    return event.sort == sort && event.device == device && event.Covers(t);
  });
}

// Of the step thread, the first to begin after a moment.
const Event* NextCall(const std::vector<Event>& events, int64_t t) {
  for (const Event& event : events) {
    if (event.sort == Event::kOwnCall && event.start > t) return &event;
  }
  return nullptr;
}

class SweepTest : public ::testing::TestWithParam<unsigned> {
 protected:
  int64_t Number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  std::vector<Event> Events(int64_t end) {
    std::vector<Event> events;
    const int64_t count = Number(0, 60);
    for (int64_t i = 0; i < count; ++i) {
      Event event;
      event.sort = static_cast<Event::Sort>(Number(0, 3));
      event.start = Number(0, end - 1);
      // Empty ones, short ones and long ones.
      event.end = std::min(end, event.start + (Number(0, 3) == 0 ? Number(0, end) : Number(0, 12)));
      event.kind = static_cast<CallKind>(Number(0, kCallKinds - 1));
      event.site = static_cast<size_t>(Number(0, kSites - 1));
      event.device = static_cast<size_t>(Number(0, kDevices - 1));
      event.blocks = Number(1, 15);
      event.communicates = Number(0, 2) == 0;
      events.push_back(event);
    }
    Sort(&events);
    return events;
  }
  // Back to back as they are found, or apart, overlapping and nested as a process may record them.
  std::vector<Step> Steps(int64_t end) {
    std::vector<Step> steps;
    const int64_t count = Number(0, 8);
    const bool back_to_back = Number(0, 1) == 0;
    int64_t at = Number(0, end / 4);
    for (int64_t i = 0; i < count; ++i) {
      Step step;
      step.number = i;
      step.start = back_to_back ? at : Number(0, end - 1);
      step.end = std::min(end, step.start + Number(0, end / 4));
      at = step.end;
      step.use = static_cast<StepUse>(Number(0, 5) < 4 ? 0 : Number(1, 2));
      steps.push_back(step);
    }
    std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.start < b.start; });
    return steps;
  }

 private:
  std::mt19937_64 random_{GetParam()};
};

TEST_P(SweepTest, PartsAddUpToTheStep) {
  for (int round = 0; round < 50; ++round) {
    constexpr int64_t kEnd = 200;
    const std::vector<Event> events = Events(kEnd);
    std::vector<Step> steps = Steps(kEnd);
    Swept(events, &steps);
    const std::vector<Moment> moments = Moments(events, kEnd);
    for (const Step& step : steps) {
      SCOPED_TRACE(std::to_string(step.start) + " to " + std::to_string(step.end));
      EXPECT_EQ(std::accumulate(step.parts.begin(), step.parts.end(), int64_t{0}), step.time());
      Parts expected{};
      for (int64_t t = step.start; t < step.end; ++t) {
        const Part part = PartAt(moments[static_cast<size_t>(t)]);
        ++expected[static_cast<size_t>(part)];
      }
      EXPECT_EQ(step.parts, expected);
      int64_t communication = 0;
      for (int64_t t = step.start; t < step.end; ++t) {
        communication += std::any_of(events.begin(), events.end(), [&](const Event& event) {
          return event.sort == Event::kKernel && event.communicates && event.Covers(t);
        });
      }
      EXPECT_EQ(step.communication, communication);
      const auto began = [&](Event::Sort sort) {
        return std::count_if(events.begin(), events.end(), [&](const Event& event) {
          return event.sort == sort && step.start <= event.start && event.start < step.end;
        });
      };
      EXPECT_EQ(step.calls, began(Event::kOwnCall));
      EXPECT_EQ(step.calls_elsewhere, began(Event::kOtherCall));
    }
  }
}

TEST_P(SweepTest, SitesAndDevicesAddUpToTheMeasuredTime) {
  for (int round = 0; round < 50; ++round) {
    constexpr int64_t kEnd = 200;
    const std::vector<Event> events = Events(kEnd);
    std::vector<Step> steps = Steps(kEnd);
    Sweep sweep = Swept(events, &steps);
    const std::vector<Moment> moments = Moments(events, kEnd);
    std::vector<int64_t> sites(kSites);
    std::vector<int64_t> gaps(kSites);
    std::vector<DeviceTimes> devices(kDevices);
    int64_t measured = 0;
    for (int64_t t = 0; t < kEnd; ++t) {
      const bool in = std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
        return step.use == StepUse::kMeasured && step.start <= t && t < step.end;
      });
      if (!in) continue;
      ++measured;
      const Moment& moment = moments[static_cast<size_t>(t)];
      if (moment.own != nullptr) {
        ++sites[moment.own->site];
      } else if (const Event* const next = NextCall(events, t); next != nullptr && moment.other == nullptr) {
        ++gaps[next->site];
      }
      const size_t host = moment.own != nullptr     ? static_cast<size_t>(moment.own->kind)
                          : moment.other != nullptr ? static_cast<size_t>(moment.other->kind)
                                                    : kHostOutside;
      for (size_t device = 0; device < kDevices; ++device) {
        const bool copies = Runs(events, Event::kCopy, device, t);
        if (copies) ++devices[device].copies;
        if (Runs(events, Event::kKernel, device, t)) {
          ++devices[device].kernels;
          int64_t blocks = 0;
          bool communicates = false;
          bool computes = false;
          for (const Event& event : events) {
            const bool runs = event.sort == Event::kKernel && event.device == device && event.start <= t;
            if (!runs || t >= event.end) continue;
            blocks += event.blocks;
            (event.communicates ? communicates : computes) = true;
          }
          if (communicates) ++devices[device].communication;
          if (communicates && !computes) ++devices[device].communication_alone;
          devices[device].busy_sms += std::min(1.0, static_cast<double>(blocks) / kSms);
        } else {
          ++(copies ? devices[device].copies_alone : devices[device].idle[host]);
        }
      }
    }
    EXPECT_EQ(sweep.measured_ns(), measured);
    for (size_t site = 0; site < kSites; ++site) {
      EXPECT_EQ(sweep.SiteTime(site), sites[site]);
      EXPECT_EQ(sweep.GapTime(site), gaps[site]);
    }
    for (size_t device = 0; device < kDevices; ++device) {
      const DeviceTimes& times = sweep.device(device);
      EXPECT_EQ(times.kernels, devices[device].kernels);
      EXPECT_EQ(times.copies_alone, devices[device].copies_alone);
      EXPECT_EQ(times.copies, devices[device].copies);
      EXPECT_EQ(times.communication, devices[device].communication);
      EXPECT_EQ(times.communication_alone, devices[device].communication_alone);
      EXPECT_EQ(times.idle, devices[device].idle);
      EXPECT_NEAR(times.busy_sms, devices[device].busy_sms, 1e-6);
      EXPECT_EQ(times.kernels + times.copies_alone + std::accumulate(times.idle.begin(), times.idle.end(), int64_t{0}),
                measured);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SweepTest, ::testing::Range(0U, 40U));

TEST(SweepCallTest, SaysWhetherItBeganInTheMeasuredTime) {
  std::vector<Step> steps(2);
  steps[0] = {.number = 0, .start = 10, .end = 20, .use = StepUse::kWarmUp};
  steps[1] = {.number = 1, .start = 20, .end = 30};
  Sweep sweep(&steps);
  EXPECT_FALSE(sweep.Call(true, 5, 6, CallKind::kCopy, 0));
  EXPECT_FALSE(sweep.Call(true, 19, 21, CallKind::kCopy, 0));
  EXPECT_TRUE(sweep.Call(false, 20, 20, CallKind::kCopy, 0));
  EXPECT_TRUE(sweep.Call(true, 29, 40, CallKind::kCopy, 0));
  EXPECT_FALSE(sweep.Call(true, 30, 31, CallKind::kCopy, 0));
  sweep.Finish();
  EXPECT_EQ(sweep.calls_outside_steps(), 2U);
  EXPECT_EQ(sweep.SiteTime(0), 2);
  EXPECT_EQ(steps[0].calls, 1U);
  EXPECT_EQ(steps[1].calls, 1U);
  EXPECT_EQ(steps[1].calls_elsewhere, 1U);
}

// A step around all others, as a process may record it: takes a time by the number of steps and not by its square.
TEST(SweepStepsTest, OneAroundVeryMany) {
  constexpr int64_t kMany = 100'000;
  std::vector<Step> steps;
  steps.push_back({.number = 0, .start = 0, .end = 10 * kMany});
  for (int64_t i = 0; i < kMany; ++i) steps.push_back({.number = i + 1, .start = 10 * i, .end = 10 * i + 10});
  Sweep sweep(&steps);
  for (int64_t i = 0; i < kMany; ++i) sweep.Call(true, 10 * i + 2, 10 * i + 5, CallKind::kCopy, 0);
  sweep.Finish();
  EXPECT_EQ(steps[0].parts[static_cast<size_t>(Part::kCopies)], 3 * kMany);
  EXPECT_EQ(steps[0].calls, static_cast<uint64_t>(kMany));
  EXPECT_EQ(steps.back().parts[static_cast<size_t>(Part::kCopies)], 3);
  EXPECT_EQ(steps.back().calls, 1U);
}

}  // namespace
}  // namespace slipstream::report
