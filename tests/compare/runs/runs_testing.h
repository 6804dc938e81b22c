// What tests of compared runs share: reports that are put together by hand.
//
// Threading: none of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/compare/runs/runs.h"

namespace slipstream::compare {

// A run of one process with so many measured steps of `time` ns each, and nothing else.
inline RecordedRun RunOf(const std::string& name, size_t steps, int64_t time) {
  RecordedRun run;
  run.name = name;
  report::ProcessReport& process = run.report.processes.emplace_back();
  process.pid = 7;
  process.has_steps = steps != 0;
  process.step_site = "/job/train.py:8 (main)";
  std::vector<int64_t> times;
  for (size_t i = 0; i < steps; ++i) {
    const int64_t start = 1000 + static_cast<int64_t>(i) * time;
    process.steps.push_back({.number = static_cast<int64_t>(i), .start = start, .end = start + time});
    times.push_back(time);
  }
  process.measured_steps = steps;
  process.measured_time = static_cast<int64_t>(steps) * time;
  process.step_time = report::DistributionOf(std::move(times));
  return run;
}

inline report::ProcessReport& ProcessOf(RecordedRun* run) { return run->report.processes[0]; }

// Of every step: `computes` ns, then idle while the host was outside of calls.
inline report::DeviceReport& AddDevice(RecordedRun* run, int64_t computes) {
  run->report.kernels_recorded = run->report.device_copies_recorded = true;
  report::ProcessReport& process = ProcessOf(run);
  const auto steps = static_cast<int64_t>(process.measured_steps);
  report::DeviceReport& device = process.devices.emplace_back();
  device.name = "NVIDIA H100";
  device.times.kernels = steps * computes;
  device.times.idle[report::kHostOutside] = process.measured_time - steps * computes;
  return device;
}

// A line in /job/train.py that calls `function` so often in a step, for `time` ns each step.
inline void AddSite(RecordedRun* run, int64_t line, const std::string& in, const std::string& function, uint64_t calls,
                    int64_t time) {
  report::ProcessReport& process = ProcessOf(run);
  report::SiteReport site;
  site.known = true;
  site.file = "/job/train.py";
  site.line = line;
  site.function = in;
  site.calls = calls * process.measured_steps;
  site.time = time * static_cast<int64_t>(process.measured_steps);
  site.functions.push_back({.name = function, .calls = site.calls});
  process.sites.push_back(site);
}

}  // namespace slipstream::compare
