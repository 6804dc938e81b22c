// A record of device memory that the program got or gave back (trace_record.h). It is beside the record of the call
// that did it, in the same thread and with the same times.
//
// A block exists from the end of the call that got it to the start of the call that gives it back: another call may get
// it before that one is over. So the records of one address, by these two times, never overlap.
//
// Threading: pure functions.
#pragma once

#include <cstdint>

#include "tracer/base/call_detail.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

struct BlockRecord {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  MemoryUse use = MemoryUse::kAllocated;
  MemoryKind kind = MemoryKind::kDevice;
  uint64_t address = 0;  // or the handle; 0: all that there was (kReset)
  uint64_t bytes = 0;    // as the call asked for them; 0: given back, or not known
  uint64_t stream = 0;   // as of a call
  int16_t device = -1;   // that the memory is on; -1: not known, or given back
  uint32_t library = 0;  // that made the call, by NameTable::kCallers; 0: not known
  uint32_t stack = 0;    // these as of a call
  uint32_t site = 0;
  uint16_t hook = 0;
  uint8_t flags = 0;
};

inline TraceRecord RecordOf(const BlockRecord& block) {
  return {.start_ns = block.start_ns,
          .end_ns = block.end_ns,
          .bytes = block.bytes,
          .stream = block.stream,
          .number = block.address,
          .stack = block.stack,
          .site = block.site,
          .correlation = block.library,
          .status = static_cast<int32_t>(block.kind) | static_cast<int32_t>(block.use) << 8,
          .hook = block.hook,
          .device = block.device,
          .kind = block.use == MemoryUse::kAllocated ? RecordKind::kAllocated : RecordKind::kFreed,
          .flags = block.flags};
}

inline BlockRecord BlockOf(const TraceRecord& record) {
  return {.start_ns = record.start_ns,
          .end_ns = record.end_ns,
          .use = static_cast<MemoryUse>(record.status >> 8 & 0xff),
          .kind = static_cast<MemoryKind>(record.status & 0xff),
          .address = record.number,
          .bytes = record.bytes,
          .stream = record.stream,
          .device = record.device,
          .library = record.correlation,
          .stack = record.stack,
          .site = record.site,
          .hook = record.hook,
          .flags = record.flags};
}

}  // namespace slipstream::tracer
