// What tests of single rules share: the facts of a run that has nothing wrong, and what is added to them.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/advise/units_testing.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::advise {

inline constexpr uint64_t kSteps = 100;
inline const Place kUpload = {"/job/train.py", 10, "main"};
inline const Place kLoss = {"/job/train.py", 20, "main"};
inline const Place kStep = {"/job/train.py", 30, "main"};

// A hundred steps of 10 ms on one device, of which the device is idle for 4 ms while the host launches and for 2 while
// it is outside CUDA calls.
class RulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    report_.has_own_tables = true;
    report_.kernels_recorded = report_.device_copies_recorded = true;
    report::ProcessReport& process = report_.processes.emplace_back();
    process.has_steps = true;
    process.measured_steps = kSteps;
    process.measured_time = static_cast<int64_t>(kSteps) * 10 * kMs;
    process.step_time = report::DistributionOf(std::vector<int64_t>(kSteps, 10 * kMs));
    report::DeviceReport& device = process.devices.emplace_back();
    device.kernels = 40 * kSteps;
    device.kernel_time = static_cast<int64_t>(kSteps) * 4 * kMs;
    device.times.kernels = device.kernel_time;
    device.times.idle[static_cast<size_t>(report::CallKind::kLaunch)] = static_cast<int64_t>(kSteps) * 4 * kMs;
    device.times.idle[report::kHostOutside] = static_cast<int64_t>(kSteps) * 2 * kMs;
    device.sm_efficiency = 0.9;
    facts_.report = &report_;
    facts_.process = &process;
    facts_.devices_recorded = true;
    facts_.device_memory = 80 * kGiB;
    facts_.step_times.assign(kSteps, 10 * kMs);
  }

  report::ProcessReport& process() { return report_.processes[0]; }
  report::DeviceReport& device() { return process().devices[0]; }
  report::SiteReport& Site(const Place& place, int64_t gap = 0) {
    report::SiteReport& site = process().sites.emplace_back();
    site.known = true;
    site.file = place.file;
    site.line = place.line;
    site.function = place.function;
    site.gap = gap * static_cast<int64_t>(kSteps);
    return site;
  }
  // Of every step: so many calls of so many bytes, which take so long each.
  CallGroup& Calls(const std::string& function, const Place& place, uint64_t calls, int64_t bytes, int64_t time,
                   const std::string& decision = "") {
    CallGroup& group = facts_.calls.emplace_back();
    group.function = function;
    group.place = place;
    group.decision = decision;
    group.calls = calls * kSteps;
    group.bytes = static_cast<int64_t>(group.calls) * bytes;
    group.time = static_cast<int64_t>(group.calls) * time;
    group.least = group.most = bytes;
    return group;
  }
  WorkGroup& Kernels(const std::string& name, const Place& place, uint64_t count, int64_t time) {
    WorkGroup& group = facts_.work.emplace_back();
    group.kernel = name;
    group.place = place;
    group.count = count * kSteps;
    group.time = static_cast<int64_t>(group.count) * time;
    return group;
  }
  void Upload(int64_t bytes, int64_t time) {
    WorkGroup& group = facts_.work.emplace_back();
    group.copy_kind = 1;
    group.place = kUpload;
    group.count = kSteps;
    group.bytes = static_cast<int64_t>(kSteps) * bytes;
    group.time = static_cast<int64_t>(kSteps) * time;
    group.least = group.most = bytes;
  }
  // Of what the line uploads, this share is the same in every step.
  void Same(const Place& place, double share = 1) {
    facts_.same_uploads.push_back({.place = place, .steps = kSteps, .known_steps = kSteps, .share = share});
  }
  // Of this process, which is alone on its machine: in a second of looks, so many processors' worth of time.
  void Workers(int64_t most, double ran = 0, double waited = 0) { facts_.tasks.workers = Tasks(most, ran, waited); }
  void Threads(int64_t most, double ran, double waited = 0) { facts_.tasks.threads = Tasks(most, ran, waited); }
  void StepThread(double waited, double ran = 0.5) { facts_.tasks.step_thread = Tasks(1, ran, waited); }
  static TaskSum Tasks(int64_t most, double ran, double waited) {
    constexpr double kSecond = 1e9;
    return {.most = most,
            .time = static_cast<int64_t>(kSecond),
            .ran = static_cast<int64_t>(ran * kSecond),
            .waited = static_cast<int64_t>(waited * kSecond)};
  }
  report::MemoryReport& Pool(int64_t live, int64_t idle) {
    report::MemoryReport& pool = process().memory.emplace_back();
    pool.peak_live = live;
    pool.peak_idle = idle;
    pool.peak = live + idle;
    pool.peak_point = {.time = 0, .live = live, .idle = idle};
    return pool;
  }

  Verdict Of(std::string_view rule) {
    for (const Rule& one : Rules()) {
      if (one.name != rule) continue;
      facts_.machine = {facts_.tasks};
      return one.look(facts_);
    }
    ADD_FAILURE() << rule << " is no rule";
    return Verdict::Nothing();
  }
  // What it says is worth so much of a step.
  void ExpectAdvice(std::string_view rule, int64_t cost) {
    const Verdict verdict = Of(rule);
    ASSERT_EQ(verdict.kind, Verdict::Kind::kAdvice) << rule << " " << verdict.why;
    ASSERT_TRUE(verdict.advice.cost) << rule;
    EXPECT_EQ(*verdict.advice.cost, cost) << rule;
    ExpectWhole(verdict.advice);
  }
  void ExpectStake(std::string_view rule, int64_t at_stake) {
    const Verdict verdict = Of(rule);
    ASSERT_EQ(verdict.kind, Verdict::Kind::kAdvice) << rule << " " << verdict.why;
    EXPECT_FALSE(verdict.advice.cost) << rule;
    EXPECT_NE(verdict.advice.why_unknown, "") << rule;
    EXPECT_EQ(verdict.advice.at_stake, at_stake) << rule;
    ExpectWhole(verdict.advice);
  }
  static void ExpectWhole(const Advice& advice) {
    EXPECT_TRUE(advice.finding.ends_with(".")) << advice.finding;
    EXPECT_FALSE(advice.evidence.empty());
    EXPECT_NE(advice.change, "");
    EXPECT_NE(advice.snippet, "");
  }
  void ExpectNothing(std::string_view rule) {
    const Verdict verdict = Of(rule);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kNothing) << rule << ": " << verdict.advice.finding << verdict.why;
  }
  void ExpectAbstains(std::string_view rule) {
    const Verdict verdict = Of(rule);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kAbstains) << rule;
    EXPECT_NE(verdict.why, "") << rule;
  }

  report::Report report_;
  Facts facts_;
};

}  // namespace slipstream::advise
