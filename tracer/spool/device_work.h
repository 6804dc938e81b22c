// What a device did: kernels, copies and memsets, and what waited for it, as records of a trace (activity_record.h),
// readings of its clock and calls of the driver (trace_record.h).
//
// Times are the device profiler's minus a number that is the same for a whole process, so that they are near
// CLOCK_MONOTONIC. Readings of both clocks give the remaining difference (DeviceClockRecord). `correlation` is that of
// the call which asked for the work.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tracer/spool/activity_record.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

// Where and when, of any of them.
struct DeviceWork {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint32_t device = 0;
  uint32_t context = 0;  // CUPTI's numbers of them
  uint32_t stream = 0;
  uint32_t correlation = 0;
  uint64_t graph_node = 0;  // CUPTI's number of the node of a launched graph; 0: of none
  uint32_t graph = 0;       // and of that graph
};

struct KernelWork {
  DeviceWork work;
  uint32_t name = 0;
  uint32_t grid[3] = {};
  uint32_t block[3] = {};
  uint32_t registers = 0;            // a thread
  uint32_t static_shared_bytes = 0;  // a block
  uint32_t dynamic_shared_bytes = 0;
};

// As CUPTI numbers kinds of copies and of memory.
struct CopyWork {
  DeviceWork work;
  uint64_t bytes = 0;
  uint8_t kind = 0;
  uint8_t from = 0;
  uint8_t to = 0;
  // Of a copy between two devices; -1: it is none, or it is not known.
  int32_t from_device = -1;
  int32_t to_device = -1;
};

struct SetWork {
  DeviceWork work;
  uint64_t bytes = 0;
  uint32_t value = 0;
  uint8_t memory = 0;
};

// A wait for a device: the host's for a stream, an event or a context, or a stream's for an event. `work.stream` is
// CUPTI's number, kNotApplicable where the wait is for none; `work.device` is -1, since CUPTI does not say it.
struct SynchronizationWork {
  static constexpr uint32_t kNotApplicable = 0xffffffff;  // CUPTI_SYNCHRONIZATION_INVALID_VALUE
  DeviceWork work;
  uint8_t type = 0;  // CUpti_ActivitySynchronizationType
  uint32_t event = kNotApplicable;
};

inline ActivityRecord ActivityOf(const DeviceWork& work, ActivityKind kind) {
  return {.start_ns = work.start_ns,
          .end_ns = work.end_ns,
          .graph_node = work.graph_node,
          .correlation = work.correlation,
          .context = work.context,
          .stream = work.stream,
          .graph = work.graph,
          .device = static_cast<int16_t>(work.device),
          .kind = kind};
}
inline DeviceWork DeviceWorkOf(const ActivityRecord& record) {
  return {.start_ns = record.start_ns,
          .end_ns = record.end_ns,
          .device = static_cast<uint32_t>(record.device),
          .context = record.context,
          .stream = record.stream,
          .correlation = record.correlation,
          .graph_node = record.graph_node,
          .graph = record.graph};
}

// detail: the name; the grid; the block, x and y in one; z of the block and the registers in one; the two sizes.
// Blocks have at most 1024 by 1024 by 64 threads, each with 255 registers (CUDA programming guide, "Compute
// Capabilities").
inline ActivityRecord RecordOf(const KernelWork& kernel) {
  ActivityRecord record = ActivityOf(kernel.work, ActivityKind::kKernel);
  const uint32_t detail[] = {kernel.name,
                             kernel.grid[0],
                             kernel.grid[1],
                             kernel.grid[2],
                             (kernel.block[0] & 0xffff) | kernel.block[1] << 16,
                             (kernel.block[2] & 0xffff) | kernel.registers << 16,
                             kernel.static_shared_bytes,
                             kernel.dynamic_shared_bytes};
  std::copy(std::begin(detail), std::end(detail), std::begin(record.detail));
  return record;
}
inline KernelWork KernelOf(const ActivityRecord& record) {
  const uint32_t* const detail = record.detail;
  return {.work = DeviceWorkOf(record),
          .name = detail[0],
          .grid = {detail[1], detail[2], detail[3]},
          .block = {detail[4] & 0xffff, detail[4] >> 16, detail[5] & 0xffff},
          .registers = detail[5] >> 16,
          .static_shared_bytes = detail[6],
          .dynamic_shared_bytes = detail[7]};
}

// detail: the bytes, lower half first; kinds of the copy, of its source and of its destination; the two devices.
inline ActivityRecord RecordOf(const CopyWork& copy) {
  ActivityRecord record = ActivityOf(copy.work, ActivityKind::kCopy);
  record.detail[0] = static_cast<uint32_t>(copy.bytes);
  record.detail[1] = static_cast<uint32_t>(copy.bytes >> 32);
  record.detail[2] = uint32_t{copy.kind} | uint32_t{copy.from} << 8 | uint32_t{copy.to} << 16;
  record.detail[3] = static_cast<uint32_t>(copy.from_device);
  record.detail[4] = static_cast<uint32_t>(copy.to_device);
  return record;
}
inline CopyWork CopyOf(const ActivityRecord& record) {
  const uint32_t* const detail = record.detail;
  return {.work = DeviceWorkOf(record),
          .bytes = uint64_t{detail[1]} << 32 | detail[0],
          .kind = static_cast<uint8_t>(detail[2]),
          .from = static_cast<uint8_t>(detail[2] >> 8),
          .to = static_cast<uint8_t>(detail[2] >> 16),
          .from_device = static_cast<int32_t>(detail[3]),
          .to_device = static_cast<int32_t>(detail[4])};
}

// detail: the bytes, lower half first; the value; the kind of memory.
inline ActivityRecord RecordOf(const SetWork& set) {
  ActivityRecord record = ActivityOf(set.work, ActivityKind::kSet);
  record.detail[0] = static_cast<uint32_t>(set.bytes);
  record.detail[1] = static_cast<uint32_t>(set.bytes >> 32);
  record.detail[2] = set.value;
  record.detail[3] = set.memory;
  return record;
}
inline SetWork SetOf(const ActivityRecord& record) {
  const uint32_t* const detail = record.detail;
  return {.work = DeviceWorkOf(record),
          .bytes = uint64_t{detail[1]} << 32 | detail[0],
          .value = detail[2],
          .memory = static_cast<uint8_t>(detail[3])};
}

// detail: the type; the event.
inline ActivityRecord RecordOf(const SynchronizationWork& wait) {
  ActivityRecord record = ActivityOf(wait.work, ActivityKind::kSynchronization);
  record.detail[0] = wait.type;
  record.detail[1] = wait.event;
  return record;
}
inline SynchronizationWork SynchronizationOf(const ActivityRecord& record) {
  return {.work = DeviceWorkOf(record), .type = static_cast<uint8_t>(record.detail[0]), .event = record.detail[1]};
}

// The device profiler's clock was read between start_ns and end_ns. bytes: what it said. stream: what is subtracted
// from its times in all records of the process.
// Between a kBegins and the next kEnds, all work of the devices that was submitted and done in that time is recorded;
// outside, none is. Without a kEnds, that lasts until the last reading.
enum class DeviceReading : uint8_t { kBetween = 0, kBegins = 1, kEnds = 2 };

inline TraceRecord DeviceClockRecord(uint64_t before_ns, uint64_t after_ns, uint64_t device_ns, uint64_t base_ns,
                                     DeviceReading reading = DeviceReading::kBetween) {
  return {.start_ns = before_ns,
          .end_ns = after_ns,
          .bytes = device_ns,
          .stream = base_ns,
          .status = static_cast<int32_t>(reading),
          .kind = RecordKind::kDeviceClock};
}

// A function of the driver, that no hook saw or that was not the first one in its hook's call. hook: its number in
// NameTable::kDriverFunctions. bytes: the library that called, where no hook saw the call, in NameTable::kLibraries (0:
// not known). number: that of the hooked call that led to it (0: none did).
inline TraceRecord DriverCallRecord(uint64_t start_ns, uint64_t end_ns, uint16_t function, int32_t status,
                                    uint32_t correlation, uint32_t library, uint64_t call = 0) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .bytes = library,
          .number = call,
          .correlation = correlation,
          .status = status,
          .hook = function,
          .kind = RecordKind::kDriverCall};
}

}  // namespace slipstream::tracer
