// One thing that a device did, as a spool file holds it: 80 bytes, no pointers. It comes long after it happened, from
// the device profiler and not from a thread of the program, so it is in chunks of a kind of its own (spool_format.h),
// and is never in a ring.
//
// What a field means for each kind is in device_work.h; nothing else knows it.
//
// Threading: plain data.
// Hazard: written to files as it is: change kActivityVersion with any change of layout or meaning. Readers skip kinds
//   that they do not know, and bytes behind those that they know.
#pragma once

#include <cstdint>
#include <type_traits>

namespace slipstream::tracer {

inline constexpr uint16_t kActivityVersion = 1;

enum class ActivityKind : uint8_t {
  kNone = 0,  // never in a file
  kKernel = 1,
  kCopy = 2,
  kSet = 3,
  kSynchronization = 4,  // of a host with a device, or of a stream with an event: no work of a device
};
inline constexpr uint8_t kLastActivityKind = 4;

struct ActivityRecord {
  // The device profiler's clock, minus a number that is the same for a whole process: near CLOCK_MONOTONIC.
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint64_t graph_node = 0;   // CUPTI's number of the node of a launched graph; 0: of none
  uint32_t correlation = 0;  // of the call that asked for it, as call records have it; 0: not known
  uint32_t context = 0;      // CUPTI's numbers
  uint32_t stream = 0;
  uint32_t graph = 0;  // of the launched graph; 0: none
  uint32_t detail[9] = {};
  int16_t device = -1;  // ordinal; -1: not known
  ActivityKind kind = ActivityKind::kNone;
  uint8_t reserved = 0;
};
static_assert(sizeof(ActivityRecord) == 80);
static_assert(std::is_trivially_copyable_v<ActivityRecord> && std::has_unique_object_representations_v<ActivityRecord>);

}  // namespace slipstream::tracer
