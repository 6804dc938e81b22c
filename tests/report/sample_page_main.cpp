// sample_page FILE STEPS DEVICES: the page of a report that nobody recorded, of so many steps and devices, for looking
// at it and for the test that does (page_in_browser.py). Every figure is made up by a rule, and the same each time.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tools/trace/report/html.h"
#include "tools/trace/report/plotly.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {
namespace {

constexpr int64_t kStep = 41'700'000;
constexpr int64_t kMiB = 1 << 20;

// From -1 to 1, without any pattern that could be seen.
double Wobble(size_t i) { return std::sin(static_cast<double>(i * i % 1009) * 1.7); }

ProcessReport Process(size_t steps, size_t devices, int64_t rank) {
  ProcessReport process;
  process.process = rank + 1;
  process.pid = 4000 + rank;
  process.rank = rank;
  process.executable = "/usr/bin/python3";
  process.command = "python3 train.py --epochs 3";
  process.has_steps = true;
  process.devices_recorded = true;
  process.step_site = "train.py:42 (train)";
  process.steps_found = true;
  int64_t at = 2'000'000'000;
  std::vector<int64_t> times;
  std::array<std::vector<int64_t>, kParts> parts;
  for (size_t i = 0; i < steps; ++i) {
    Step& step = process.steps.emplace_back();
    step.number = static_cast<int64_t>(i);
    step.start = at;
    for (size_t part = 0; part < kParts; ++part) {
      step.parts[part] = kStep / static_cast<int64_t>(3 + part * part) +
                         static_cast<int64_t>(Wobble(i + 7 * part + static_cast<size_t>(rank)) * 1e6);
    }
    if (i < steps / 4 && i < 3) step.parts[0] += 3 * kStep;
    step.end = at += std::accumulate(step.parts.begin(), step.parts.end(), int64_t{0});
    step.use = i < steps / 4 && i < 3 ? StepUse::kWarmUp : StepUse::kMeasured;
    if (step.use != StepUse::kMeasured) continue;
    ++process.measured_steps;
    process.measured_time += step.time();
    times.push_back(step.time());
    for (size_t part = 0; part < kParts; ++part) parts[part].push_back(step.parts[part]);
  }
  process.step_time = DistributionOf(std::move(times));
  for (size_t part = 0; part < kParts; ++part) process.parts[part] = DistributionOf(std::move(parts[part]));
  process.last = at + 500'000'000;
  const int64_t warm_up = at - 2'000'000'000 - process.measured_time;
  process.wall = {.begin = 0, .end = process.last, .from_process_start = true, .parts = {}};
  process.wall.parts = {{WallPart::kStartUp, 2'000'000'000, 1, {}},
                        {WallPart::kWarmUp, warm_up, steps - process.measured_steps, {}},
                        {WallPart::kMeasured, process.measured_time, process.measured_steps, {}},
                        {WallPart::kAfter, 500'000'000, 1, {}}};
  for (size_t number = 0; number < devices; ++number) {
    DeviceReport& device = process.devices.emplace_back();
    device.device = static_cast<int64_t>(number);
    device.name = "NVIDIA H200";
    device.sms = 132;
    device.times.kernels = process.measured_time / 2;
    device.copies.push_back({1, "Host-to-Device", 10, 10 * kMiB, 1'000'000});
    MemoryReport& pool = process.memory.emplace_back();
    pool.device = static_cast<int64_t>(number);
    for (size_t i = 0; i < 400; ++i) {
      const double share = static_cast<double>(i) / 400;
      MemoryPoint point;
      point.time = process.last * static_cast<int64_t>(i + 1) / 400;
      point.live = static_cast<int64_t>((9000 + 2500 * Wobble(i + number)) * std::min(1.0, 0.05 + 4 * share)) * kMiB;
      point.idle = static_cast<int64_t>(1500 * (1 + Wobble(3 * i + number))) * kMiB;
      const bool is_peak = point.live + point.idle > pool.peak;
      if (is_peak) pool.peak_point = point;
      pool.peak = std::max(pool.peak, point.live + point.idle);
      pool.peak_live = std::max(pool.peak_live, point.live);
      pool.peak_idle = std::max(pool.peak_idle, point.idle);
      pool.points.push_back(point);
    }
    pool.readings = 1234;
  }
  for (int exponent = 2; exponent < 29; exponent += 2) {
    const int64_t bytes = int64_t{1} << exponent;
    process.copy_sizes[exponent] = {10, 10 * bytes, 10 * (5000 + bytes / 20)};
    process.device_copies[1][exponent] = {10, 10 * bytes, 10 * (2000 + bytes / 50)};
  }
  return process;
}

Timeline OneStep(const ProcessReport& process, size_t devices) {
  const Step& step = process.steps.back();
  Timeline timeline = {.process = 0, .number = step.number, .start = step.start, .end = step.end, .lanes = {}};
  const auto lane = [&](const std::string& name, int kind, const char* what, int64_t length, int64_t every) {
    TimelineLane& one = timeline.lanes.emplace_back();
    one.name = name;
    for (int64_t at = step.start + every / 3; at + length < step.end; at += every) {
      one.items.push_back({at, at + length, kind, what});
    }
  };
  lane("thread 4000 python3", 3, "cudaLaunchKernel", 60'000, 400'000);
  lane("thread 4077 pt_autograd_0", 0, "cudaMemcpyAsync", 300'000, 1'700'000);
  for (size_t device = 0; device < devices; ++device) {
    lane("GPU " + std::to_string(device) + ", stream 7", kTimelineKernel, "gemm", 250'000, 300'000);
    lane("GPU " + std::to_string(device) + ", stream 20", kTimelineCopy, "Host-to-Device", 900'000, 4'000'000);
  }
  return timeline;
}

// 60 % of a forward pass of `depth` layers, 30 % of a line whose name is markup, 10 % that is smaller.
FlameGraph Flame(size_t depth) {
  FlameGraph graph;
  graph.has_stacks = true;
  graph.depth = depth + 3;
  graph.least = 1'000'000;
  const auto add = [&](size_t parent, FlameKind kind, const std::string& label, int64_t time) {
    graph.frames.push_back({parent, kind, label, kind == FlameKind::kLine ? "/job/" + label : "", time, 7});
    return graph.frames.size() - 1;
  };
  add(0, FlameKind::kRoot, "all", 1'000'000'000);
  add(0, FlameKind::kSmaller, "(smaller)", 100'000'000);
  const size_t hostile =
      add(0, FlameKind::kLine, "<b>bold</b><img src=\"x\"/> & </script><a href='x'>link</a>", 300'000'000);
  add(hostile, FlameKind::kLeaf, "cudaMalloc", 300'000'000);
  size_t at = add(0, FlameKind::kLine, "train (train.py:42)", 600'000'000);
  for (size_t i = 0; i < depth; ++i)
    at = add(at, FlameKind::kLine, "forward (layer.py:" + std::to_string(i) + ")", 600'000'000);
  add(at, FlameKind::kLeaf, "gemm", 400'000'000);
  add(at, FlameKind::kLeaf, "gemm_split", 200'000'000);
  return graph;
}

int Write(const std::string& file, size_t steps, size_t devices) {
  Report report;
  report.has_own_tables = true;
  report.start_unix_ns = 1'700'000'000'000'000'000;
  report.kernels_recorded = report.device_copies_recorded = true;
  report.hosts = {"node"};
  for (size_t rank = 0; rank < devices; ++rank) {
    report.processes.push_back(Process(steps, devices, static_cast<int64_t>(rank)));
    report.last = std::max(report.last, report.processes.back().last);
  }
  report.timeline = OneStep(report.processes[0], devices);
  report.flames.host = Flame(2);
  report.flames.devices = Flame(30);
  std::ofstream out(file);
  const PageFinding finding = {
      .head = "loader-wait: about 12.3 ms per step (29.5 %), confidence high",
      .rule = "loader-wait",
      .whose = "rank 0 only",
      .found = "A sentence that goes on for so long that no phone has it on one line, with <b>markup</b> & more.",
      .evidence = {"12.3 ms of a step (29.5 %) pass outside CUDA calls right before the upload", std::string(300, 'x')},
      .places = {"/data/" + std::string(200, 'd') + "/train.py:42 (train)"},
      .change = "Let worker processes make the batches while the device computes.",
      .snippet =
          "DataLoader(..., num_workers=8, persistent_workers=True, prefetch_factor=4, pin_memory=True, "
          "drop_last=True)"};
  out << ReportHtml(report, PlotlyJs(), {finding, finding});
  return out.good() ? 0 : 1;
}

}  // namespace
}  // namespace slipstream::report

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto number = [&](int place) { return static_cast<size_t>(std::strtoul(argv[place], nullptr, 10)); };
  return slipstream::report::Write(argv[1], number(2), number(3));
}
