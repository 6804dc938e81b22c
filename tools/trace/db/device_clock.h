// Times of a device profiler's clock as times of CLOCK_MONOTONIC, by the readings that the process took of both.
//
// Between two readings by the line through them, before the first and behind the last by the nearest one.
//
// Threading: plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "tracer/spool/trace_record.h"

namespace slipstream::trace_db {

class DeviceClock {
 public:
  // RecordKind::kDeviceClock, in their order; those on which the device's clock did not go on are left out.
  void Add(const tracer::TraceRecord& clock);
  // Of a time as records of device work have it.
  uint64_t Monotonic(uint64_t recorded_ns) const;

 private:
  struct Reading {
    uint64_t recorded_ns;
    uint64_t monotonic_ns;
  };
  std::vector<Reading> readings_;
};

// When what the devices did was recorded, by the same readings.
// Threading: plain data.
class DevicePeriods {
 public:
  // Of CLOCK_MONOTONIC.
  struct Period {
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
  };

  // RecordKind::kDeviceClock, in their order.
  void Add(const tracer::TraceRecord& clock);
  const std::vector<Period>& all() const { return periods_; }

 private:
  std::vector<Period> periods_;
  bool open_ = false;
};

}  // namespace slipstream::trace_db
