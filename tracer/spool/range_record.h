// A range or mark of the program's, as a record of a trace (trace_record.h).
//
// Threading: pure functions.
#pragma once

#include <cstdint>

#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

enum class RangeKind : uint8_t { kMark = 0, kPushed = 1, kStarted = 2 };

// What 64 bits beside a range are: a number of NVTX's that many bits, a signed one longer by its sign.
enum class RangePayload : uint8_t { kNone = 0, kUnsigned = 1, kSigned = 2, kDouble = 3, kFloat = 4 };

// Names are numbers of NameTable::kRanges; 0: none, or it found no room.
struct RangeRecord {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  RangeKind kind = RangeKind::kMark;
  uint32_t name = 0;
  uint32_t domain = 0;    // its name's number
  uint32_t category = 0;  // a number that the program gave; 0: none
  uint32_t color = 0;     // ARGB; 0: none
  RangePayload payload = RangePayload::kNone;
  uint64_t payload_bits = 0;
  uint32_t thread = 0;  // on which it began, by the system's number; 0: on that of the record, where it ended
};

inline TraceRecord RecordOf(const RangeRecord& range) {
  return {.start_ns = range.start_ns,
          .end_ns = range.end_ns,
          .bytes = range.payload_bits,
          .stream = range.domain,
          .number = uint64_t{range.color} << 32 | range.category,
          .site = range.name,
          .correlation = range.thread,
          .status = static_cast<int32_t>(range.payload),
          .hook = static_cast<uint16_t>(range.kind),
          .kind = RecordKind::kRange};
}

inline RangeRecord RangeOf(const TraceRecord& record) {
  return {.start_ns = record.start_ns,
          .end_ns = record.end_ns,
          .kind = static_cast<RangeKind>(record.hook),
          .name = record.site,
          .domain = static_cast<uint32_t>(record.stream),
          .category = static_cast<uint32_t>(record.number),
          .color = static_cast<uint32_t>(record.number >> 32),
          .payload = static_cast<RangePayload>(record.status),
          .payload_bits = record.bytes,
          .thread = record.correlation};
}

}  // namespace slipstream::tracer
