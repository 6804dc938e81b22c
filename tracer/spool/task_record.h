// What a process has at work: its threads, its worker processes, and the threads that call CUDA, as records of a trace.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

enum class TasksOf : uint16_t {
  kProcess = 0,  // all of its threads
  kWorkers = 1,  // processes that it started as copies of itself, as loaders do
  kThread = 2,   // one that calls CUDA
};

// Over a time: from the look before to this one. Times are sums over those that were there at its end.
struct TaskSample {
  uint64_t start_ns = 0;  // end_ns where there was no look before: then only `count` says something
  uint64_t end_ns = 0;
  TasksOf of = TasksOf::kProcess;
  uint32_t thread = 0;  // of kThread: as records have it
  uint32_t count = 0;   // at the end
  uint32_t busy = 0;    // of these, that ran for a tenth of the time or more
  bool has_times = false;
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;  // for a processor, ready to run
  // Of kWorkers: of `count`, those that were not there at the look before.
  bool has_began = false;
  uint32_t began = 0;
  // Of kProcess, where a limit of processors holds for it (kFactProcessorLimit): how often, and for how long, the
  // system let nothing under that limit run.
  bool has_throttled = false;
  uint32_t throttled = 0;
  uint64_t throttled_ns = 0;
};

inline constexpr uint8_t kTasksHaveTimes = 1;
inline constexpr uint8_t kTasksHaveThrottled = 2;
inline constexpr uint8_t kTasksHaveBegan = 4;  // where others have `throttled`

inline TraceRecord RecordOf(const TaskSample& sample) {
  return {.start_ns = sample.start_ns,
          .end_ns = sample.end_ns,
          .bytes = sample.ran_ns,
          .stream = sample.waited_ns,
          .number = sample.throttled_ns,
          .stack = sample.count,
          .site = sample.busy,
          .correlation = sample.has_began ? sample.began : sample.throttled,
          .status = static_cast<int32_t>(sample.thread),
          .hook = static_cast<uint16_t>(sample.of),
          .kind = RecordKind::kTasks,
          .flags = static_cast<uint8_t>((sample.has_times ? kTasksHaveTimes : 0) |
                                        (sample.has_throttled ? kTasksHaveThrottled : 0) |
                                        (sample.has_began ? kTasksHaveBegan : 0))};
}

inline TaskSample TasksIn(const TraceRecord& record) {
  return {.start_ns = std::min(record.start_ns, record.end_ns),
          .end_ns = record.end_ns,
          .of = static_cast<TasksOf>(record.hook),
          .thread = static_cast<uint32_t>(record.status),
          .count = record.stack,
          .busy = record.site,
          .has_times = (record.flags & kTasksHaveTimes) != 0,
          .ran_ns = record.bytes,
          .waited_ns = record.stream,
          .has_began = (record.flags & kTasksHaveBegan) != 0,
          .began = (record.flags & kTasksHaveBegan) != 0 ? record.correlation : 0,
          .has_throttled = (record.flags & kTasksHaveThrottled) != 0,
          .throttled = (record.flags & kTasksHaveBegan) != 0 ? 0 : record.correlation,
          .throttled_ns = record.number};
}

}  // namespace slipstream::tracer
