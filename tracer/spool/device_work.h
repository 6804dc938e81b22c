// What a device did, as records of a trace (trace_record.h): kernels, copies, memsets, and readings of its clock.
//
// Times are the device profiler's minus a number that is the same for a whole process, so that they are near
// CLOCK_MONOTONIC. Readings of both clocks give the remaining difference (DeviceClockRecord). `site` of a kernel is its
// number in NameTable::kKernels, `correlation` that of the call which asked for the work.
//
// Threading: pure functions.
#pragma once

#include <cstdint>

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

constexpr bool IsDeviceWork(RecordKind kind) {
  return kind == RecordKind::kKernel || kind == RecordKind::kDeviceCopy || kind == RecordKind::kDeviceSet;
}

inline TraceRecord DeviceRecord(const DeviceWork& work, RecordKind kind) {
  return {.start_ns = work.start_ns,
          .end_ns = work.end_ns,
          .stream = uint64_t{work.context} << 32 | work.stream,
          .stack = static_cast<uint32_t>(work.graph_node),
          .correlation = work.correlation,
          .hook = static_cast<uint16_t>(work.graph_node >> 32),
          .decision = static_cast<uint16_t>(work.graph_node >> 48),
          .device = static_cast<int16_t>(work.device),
          .kind = kind};
}
inline DeviceWork DeviceWorkOf(const TraceRecord& record) {
  return {.start_ns = record.start_ns,
          .end_ns = record.end_ns,
          .device = static_cast<uint32_t>(record.device),
          .context = static_cast<uint32_t>(record.stream >> 32),
          .stream = static_cast<uint32_t>(record.stream),
          .correlation = record.correlation,
          .graph_node = uint64_t{record.stack} | uint64_t{record.hook} << 32 | uint64_t{record.decision} << 48};
}

// Grids have up to 2^31-1 by 65535 by 65535 blocks, blocks 1024 by 1024 by 64 threads with 255 registers, and a block
// has less than 16 MiB of shared memory (CUDA programming guide, "Compute Capabilities").
inline TraceRecord KernelRecord(const KernelWork& kernel) {
  TraceRecord record = DeviceRecord(kernel.work, RecordKind::kKernel);
  record.bytes = uint64_t{kernel.grid[0]} | uint64_t{kernel.grid[1] & 0xffff} << 32 | uint64_t{kernel.grid[2]} << 48;
  record.saved_ns =
      static_cast<int64_t>(uint64_t{kernel.registers & 0xffff} | uint64_t{kernel.static_shared_bytes & 0xffffff} << 16 |
                           uint64_t{kernel.dynamic_shared_bytes} << 40);
  record.status =
      static_cast<int32_t>((kernel.block[0] & 0x7ff) | (kernel.block[1] & 0x7ff) << 11 | kernel.block[2] << 22);
  record.site = kernel.name;
  return record;
}
inline KernelWork KernelOf(const TraceRecord& record) {
  const auto block = static_cast<uint32_t>(record.status);
  const auto sizes = static_cast<uint64_t>(record.saved_ns);
  return {.work = DeviceWorkOf(record),
          .name = record.site,
          .grid = {static_cast<uint32_t>(record.bytes), static_cast<uint32_t>(record.bytes >> 32 & 0xffff),
                   static_cast<uint32_t>(record.bytes >> 48)},
          .block = {block & 0x7ff, block >> 11 & 0x7ff, block >> 22},
          .registers = static_cast<uint32_t>(sizes & 0xffff),
          .static_shared_bytes = static_cast<uint32_t>(sizes >> 16 & 0xffffff),
          .dynamic_shared_bytes = static_cast<uint32_t>(sizes >> 40)};
}

inline TraceRecord CopyRecord(const CopyWork& copy) {
  TraceRecord record = DeviceRecord(copy.work, RecordKind::kDeviceCopy);
  record.bytes = copy.bytes;
  record.status = copy.kind | copy.from << 8 | copy.to << 16;
  record.saved_ns = static_cast<int64_t>(static_cast<uint64_t>(copy.to_device + 1) << 32 |
                                         static_cast<uint32_t>(copy.from_device + 1));
  return record;
}
inline CopyWork CopyOf(const TraceRecord& record) {
  return {.work = DeviceWorkOf(record),
          .bytes = record.bytes,
          .kind = static_cast<uint8_t>(record.status),
          .from = static_cast<uint8_t>(record.status >> 8),
          .to = static_cast<uint8_t>(record.status >> 16),
          .from_device = static_cast<int32_t>(static_cast<uint32_t>(record.saved_ns) - 1),
          .to_device = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(record.saved_ns) >> 32) - 1)};
}

inline TraceRecord SetRecord(const SetWork& set) {
  TraceRecord record = DeviceRecord(set.work, RecordKind::kDeviceSet);
  record.bytes = set.bytes;
  record.saved_ns = set.value;
  record.status = set.memory;
  return record;
}
inline SetWork SetOf(const TraceRecord& record) {
  return {.work = DeviceWorkOf(record),
          .bytes = record.bytes,
          .value = static_cast<uint32_t>(record.saved_ns),
          .memory = static_cast<uint8_t>(record.status)};
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
// NameTable::kDriverFunctions, and the library that called, where no hook saw the call, in NameTable::kLibraries (0:
// not known).
inline TraceRecord DriverCallRecord(uint64_t start_ns, uint64_t end_ns, uint16_t function, int32_t status,
                                    uint32_t correlation, uint32_t library) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .bytes = library,
          .correlation = correlation,
          .status = status,
          .hook = function,
          .kind = RecordKind::kDriverCall};
}

}  // namespace slipstream::tracer
