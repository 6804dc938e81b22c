// One record of a trace, as a ring and a spool file hold it: 64 bytes, no pointers.
//
// All kinds share the layout, so that a ring, a chunk and a reader know one size. The functions below define what a
// field means for kinds other than a call; nothing else knows it. What a device did has a layout of its own
// (activity_record.h).
//
// Threading: plain data.
// Hazard: written to files as it is: change kRecordVersion with any change of layout or meaning. An older reader skips
//   kinds that it does not know, and bytes behind those that it knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tracer/base/memory_figures.h"

namespace slipstream::tracer {

inline constexpr uint16_t kRecordVersion = 1;

enum class RecordKind : uint8_t {
  kNone = 0,    // never in a file
  kCall = 1,    // a hooked function was called
  kMark = 2,    // a moment that the owner names
  kMemory = 3,  // what the pool of a device holds
  kDrop = 4,    // here are records missing
  kStep = 5,    // a step of the program's loop
  kClock = 6,   // three clocks, read at once
  // device_work.h
  kDeviceClock = 7,
  kDriverCall = 8,
  // range_record.h
  kRange = 9,
  // block_record.h
  kAllocated = 10,
  kFreed = 11,
  kDecision = 12,  // an engine decided something
  kSwitch = 13,    // from here on nothing is recorded, or everything again
  kTasks = 14,     // task_record.h: what the process has at work
  // What a device did, as readers hand it out (SpoolRecord::activity). In a file it is in chunks of its own, never
  // among records of this layout.
  kActivity = 255,
};
inline constexpr uint8_t kLastRecordKind = 14;

// Bits of a call's flags.
// No line of the program is on the thread's stack, and it is one of PyTorch's autograd: the site is the line that
// called backward(), by inference (backward_lines.h), or 0 where that is not sure.
inline constexpr uint8_t kSiteIsBackward = 1;
// The device work that CUPTI knows by this record's number was asked for by slipstream and not by the program: in the
// place of the program's own, or beside it.
inline constexpr uint8_t kWorkIsOwn = 2;

// How the time that a decision saved is known: bits of its flags.
enum class Known : uint8_t {
  kNot = 0,       // then it says nothing
  kMeasured = 1,  // both clocks were read around it
  kModeled = 2,   // by what such a call takes elsewhere
};
inline constexpr uint8_t kKnownBits = 3;

// Whether a missing record of this kind counts as lost. Records that the recorder itself adds do not.
constexpr bool IsTold(RecordKind kind) {
  return kind != RecordKind::kDrop && kind != RecordKind::kClock && kind != RecordKind::kDeviceClock &&
         kind != RecordKind::kSwitch && kind != RecordKind::kTasks;
}

// Times are nanoseconds of CLOCK_MONOTONIC (tracer/base/clock.h).
struct TraceRecord {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;       // what a thread records is in the order of this
  uint64_t bytes = 0;        // moved, allocated or set
  uint64_t stream = 0;       // the handle, as a number; 0: the default stream or none
  uint64_t number = 0;       // of the call, in its process; 0: none
  uint32_t stack = 0;        // StackTree's number of the stack; 0: none, or unknown
  uint32_t site = 0;         // CodeSites' number of the line that is to blame; 0: unknown
  uint32_t correlation = 0;  // CUPTI's, of the first function of the driver that the call led to; 0: none
  int32_t status = 0;        // what the call returned, a cudaError_t or CUresult
  uint16_t hook = 0;         // HookId of the writer's build; the file has its name
  uint16_t decision = 0;     // by position in the table of decisions + 1; 0: nothing was decided. Of a call the one
                             // that says most about it; each of them has a record of its own
  int16_t device = -1;       // ordinal; -1: not known
  RecordKind kind = RecordKind::kNone;
  uint8_t flags = 0;
};
static_assert(sizeof(TraceRecord) == 64);
static_assert(std::is_trivially_copyable_v<TraceRecord> && std::has_unique_object_representations_v<TraceRecord>);

struct DecisionMade {
  uint64_t at_ns = 0;
  uint16_t decision = 0;  // by position in the table of decisions + 1
  uint64_t bytes = 0;     // these two as the counters have them: host time that it took, where that was measured
  uint64_t time_ns = 0;
  int64_t saved_ns = 0;  // host time against the program's own call; below 0 it was lost
  Known known = Known::kNot;
  uint64_t call = 0;      // number of the hooked call that it was made in; 0: in none that is recorded
  uint64_t contents = 0;  // of a copy, a fingerprint of its bytes by samples of them; 0: not known
};

inline TraceRecord RecordOf(const DecisionMade& made) {
  return {.start_ns = made.at_ns,
          .end_ns = made.at_ns,
          .bytes = made.bytes,
          .stream = made.time_ns,
          .number = static_cast<uint64_t>(made.saved_ns),
          .stack = static_cast<uint32_t>(made.call),
          .site = static_cast<uint32_t>(made.call >> 32),
          .correlation = static_cast<uint32_t>(made.contents),
          .status = static_cast<int32_t>(static_cast<uint32_t>(made.contents >> 32)),
          .decision = made.decision,
          .kind = RecordKind::kDecision,
          .flags = static_cast<uint8_t>(made.known)};
}
inline DecisionMade DecisionOf(const TraceRecord& record) {
  return {.at_ns = record.end_ns,
          .decision = record.decision,
          .bytes = record.bytes,
          .time_ns = record.stream,
          .saved_ns = static_cast<int64_t>(record.number),
          .known = static_cast<Known>(record.flags & kKnownBits),
          .call = uint64_t{record.site} << 32 | record.stack,
          .contents = uint64_t{static_cast<uint32_t>(record.status)} << 32 | record.correlation};
}

// `value` is the owner's; it stands in bytes.
inline TraceRecord MarkRecord(uint64_t now_ns, uint32_t site, uint64_t value) {
  return {.start_ns = now_ns, .end_ns = now_ns, .bytes = value, .site = site, .kind = RecordKind::kMark};
}

// bytes is the number of the step.
inline TraceRecord StepRecord(uint64_t start_ns, uint64_t end_ns, uint64_t number) {
  return {.start_ns = start_ns, .end_ns = end_ns, .bytes = number, .kind = RecordKind::kStep};
}

// bytes, stream, number: live, idle, parked bytes; site, correlation: trims and retries, the lower 32 bits. The peak
// is not kept: a reader finds it. Flags say which of these are there: stack and status, the lower and upper 32 bits of
// what the device had in use; hook and decision, the lower and upper 16 bits of the KiB of the largest idle block.
inline constexpr uint8_t kHasDeviceUsed = 1;
inline constexpr uint8_t kHasLargestIdle = 2;

inline TraceRecord MemoryRecord(uint64_t now_ns, const MemoryFigures& figures) {
  const uint64_t used = figures.device_used.value_or(0);
  const auto largest = static_cast<uint32_t>(std::min<uint64_t>(figures.largest_idle.value_or(0) / 1024, UINT32_MAX));
  return {.start_ns = now_ns,
          .end_ns = now_ns,
          .bytes = figures.live_bytes,
          .stream = figures.idle_bytes,
          .number = figures.parked_bytes,
          .stack = static_cast<uint32_t>(used),
          .site = static_cast<uint32_t>(figures.trims),
          .correlation = static_cast<uint32_t>(figures.retries),
          .status = static_cast<int32_t>(static_cast<uint32_t>(used >> 32)),
          .hook = static_cast<uint16_t>(largest),
          .decision = static_cast<uint16_t>(largest >> 16),
          .device = static_cast<int16_t>(figures.device),
          .kind = RecordKind::kMemory,
          .flags = static_cast<uint8_t>((figures.device_used ? kHasDeviceUsed : 0) |
                                        (figures.largest_idle ? kHasLargestIdle : 0))};
}

inline MemoryFigures MemoryOf(const TraceRecord& record) {
  MemoryFigures figures = {.device = record.device,
                           .live_bytes = record.bytes,
                           .idle_bytes = record.stream,
                           .parked_bytes = record.number,
                           .trims = record.site,
                           .retries = record.correlation};
  if ((record.flags & kHasDeviceUsed) != 0) {
    figures.device_used = uint64_t{static_cast<uint32_t>(record.status)} << 32 | record.stack;
  }
  if ((record.flags & kHasLargestIdle) != 0) {
    figures.largest_idle = (uint64_t{record.decision} << 16 | record.hook) * 1024;
  }
  return figures;
}

// From the start of the first one that is missing to the end of the last. bytes is how many, number how many of this
// thread are missing up to here.
inline TraceRecord DropRecord(uint64_t start_ns, uint64_t end_ns, uint64_t count, uint64_t total) {
  return {.start_ns = start_ns, .end_ns = end_ns, .bytes = count, .number = total, .kind = RecordKind::kDrop};
}
inline uint64_t DroppedUpTo(const TraceRecord& drop) { return drop.number; }

// A pause of the recording ends or begins. bytes: 1 and 0.
inline TraceRecord SwitchRecord(uint64_t at_ns, bool on) {
  return {.start_ns = at_ns, .end_ns = at_ns, .bytes = on ? uint64_t{1} : uint64_t{0}, .kind = RecordKind::kSwitch};
}
inline bool SwitchesOn(const TraceRecord& record) { return record.bytes != 0; }

// The other clocks were read between start_ns and end_ns. bytes: CLOCK_REALTIME, stream: CLOCK_MONOTONIC_RAW.
inline TraceRecord ClockRecord(uint64_t before_ns, uint64_t after_ns, uint64_t realtime_ns, uint64_t raw_ns) {
  return {
      .start_ns = before_ns, .end_ns = after_ns, .bytes = realtime_ns, .stream = raw_ns, .kind = RecordKind::kClock};
}

}  // namespace slipstream::tracer
