// What tests of tools/trace/top share: views put together by hand, and lines as text.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/top/lines.h"
#include "tools/trace/top/view.h"

namespace slipstream::top {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kSecond = 1000 * kMs;

// Two seconds of a process that copies, waits and launches, in round numbers.
inline CounterView SampleCounters() {
  CounterView counters;
  counters.seconds = 2;
  counters.total_calls = 5000;
  counters.all = {.calls = 2000, .bytes = 256 << 20, .time_ns = 1'000'000'000, .errors = 0};
  counters.waiting = {.calls = 40, .bytes = 0, .time_ns = 200'000'000, .errors = 0};
  counters.functions = {
      {.name = "cudaLaunchKernel", .kind = report::CallKind::kLaunch, .waits = false, .sum = {1900, 0, 700'000'000, 0}},
      {.name = "cudaStreamSynchronize",
       .kind = report::CallKind::kSynchronize,
       .waits = true,
       .sum = {40, 0, 200'000'000, 0}},
      {.name = "cudaMemcpyAsync",
       .kind = report::CallKind::kCopy,
       .waits = false,
       .sum = {60, 256 << 20, 100'000'000, 0}},
  };
  counters.copies = {{.direction = "host_to_device", .calls = 40, .bytes = 256 << 20},
                     {.direction = "device_to_host", .calls = 20, .bytes = 80}};
  counters.decisions = {{.name = "transfer.h2d.promoted.large", .count = 40, .bytes = 256 << 20, .time_ns = 0},
                        {.name = "transfer.sync.skipped", .count = 50, .bytes = 0, .time_ns = 0},
                        {.name = "transfer.sync.settled.copy", .count = 2, .bytes = 0, .time_ns = 20'000'000},
                        {.name = "someone.else", .count = 1, .bytes = 0, .time_ns = 0},
                        {.name = "allocator.spared.free", .count = 60, .bytes = 0, .time_ns = 90}};
  return counters;
}

inline TraceView SampleTrace(uint64_t median_ns = 80'000'000) {
  TraceView trace;
  trace.seconds = 10;
  trace.steps = StepsView{.seen = 500,
                          .last_ns = median_ns + 1'000'000,
                          .median_ns = median_ns,
                          .p95_ns = median_ns + 4'000'000,
                          .of = 64,
                          .per_second = 1e9 / static_cast<double>(median_ns),
                          .since_last_ns = 10'000'000,
                          .how = "each from /data/me/project/train.py:42"};
  trace.steps_in_window = 125;
  trace.lines = {
      {.file = "/data/me/project/train.py", .function = "step", .line = 42, .calls = 1250, .time_ns = 2'500'000'000},
      {.file = "", .function = "", .line = 0, .calls = 10, .time_ns = 1'000'000}};
  trace.has_device_work = true;
  trace.devices = {{.device = 0, .busy = 0.873}};
  trace.ahead = AheadView{.share = 0.08, .skipped = 250, .unknown = 0};
  return trace;
}

// As many lines as the window has, none of them wider.
inline void ExpectToFit(const std::vector<Line>& lines, size_t columns, size_t rows) {
  ASSERT_EQ(lines.size(), rows) << columns;
  for (const Line& line : lines) {
    size_t used = 0;
    for (const Span& span : line) used += Columns(span.text);
    ASSERT_LE(used, columns) << rows;
  }
}

inline ProcessView SampleProcess(int32_t pid, int32_t rank = -1) {
  ProcessView process;
  process.pid = pid;
  process.rank = rank;
  process.executable = "python3.12";
  process.start_unix_ns = 1'000'000'000;
  process.alive = true;
  process.counters = SampleCounters();
  process.memory = {{.device = 0, .live_bytes = uint64_t{3} << 30, .idle_bytes = 512 << 20}};
  return process;
}

}  // namespace slipstream::top
