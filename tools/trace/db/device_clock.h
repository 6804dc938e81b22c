// Times of a device profiler's clock as times of CLOCK_MONOTONIC, by the readings that the process took of both.
//
// Between two readings by the line through them, before the first and behind the last by the nearest one.
//
// Threading: plain data.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tracer/spool/activity_record.h"
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

// The device of each context, by the work that was done there: CUPTI does not say it of a synchronization.
// Memory: bounded. Threading: plain data.
class ContextDevices {
 public:
  void Add(const tracer::ActivityRecord& work);
  // -1: none is known.
  int32_t DeviceOf(uint32_t context) const;

 private:
  std::unordered_map<uint32_t, int16_t> devices_;  // of two, the lower one
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
  // Readings or work are missing before what comes next. Work is written by the reading after the one that it had ended
  // by, so nothing is sure since the last reading but one; and whoever reads the clock then, records.
  void Interrupt();
  const std::vector<Period>& all() const { return periods_; }

 private:
  std::vector<Period> periods_;
  uint64_t sure_until_ns_ = 0;  // of the last period
  bool open_ = false;
  bool interrupted_ = false;
};

}  // namespace slipstream::trace_db
