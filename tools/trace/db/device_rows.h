// Writes the rows of what one process's devices did, and connects them with its calls: CUPTI numbers calls, the
// database has numbers of its own, and a row of either may come first.
//
// Memory: what CallNumbers has.
// Threading: one thread.
// Errors: kept by the tables' Database.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "tools/trace/db/call_numbers.h"
#include "tools/trace/db/device_clock.h"
#include "tools/trace/db/trace_tables.h"
#include "tracer/spool/activity_record.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_db {

class DeviceRows {
 public:
  // `at` makes a time of the trace of one of CLOCK_MONOTONIC. All must outlive it.
  DeviceRows(TraceTables* tables, const DeviceClock& clock, const DevicePeriods& periods,
             const ContextDevices& contexts, const tracer::SpoolReader& reader, int64_t process, int64_t global_pid,
             std::function<int64_t(uint64_t)> at);

  // The database's number of a call, of which CUPTI's is `cupti` (0: none).
  int64_t CorrelationOfCall(uint32_t cupti);

  // A time of device work, in the trace's.
  int64_t At(uint64_t recorded_ns) const { return at_(clock_.Monotonic(recorded_ns)); }
  void Add(const tracer::ActivityRecord& record);
  void AddReading(const tracer::TraceRecord& clock);
  // When all records are there.
  void Finish();

 private:
  struct KernelIds {
    int64_t demangled = 0;
    int64_t brief = 0;
    int64_t mangled = 0;
  };

  // When devices were recorded, and when the first work of that was.
  struct Period {
    int64_t start = 0;
    int64_t end = 0;
    int64_t first_work = std::numeric_limits<int64_t>::max();
  };

  int64_t CorrelationOfWork(uint32_t cupti);
  // The same, and counted nowhere.
  int64_t CorrelationOfWait(uint32_t cupti);
  CallNumbers::Call* CallOf(uint32_t cupti);
  void Saw(int64_t start);
  KernelIds IdsOf(uint32_t name);
  void AddKernel(const tracer::ActivityRecord& record);
  void AddCopy(const tracer::ActivityRecord& record);
  void AddSet(const tracer::ActivityRecord& record);
  void AddSynchronization(const tracer::ActivityRecord& record);

  TraceTables& tables_;
  const DeviceClock& clock_;
  const ContextDevices& contexts_;
  const tracer::SpoolReader& reader_;
  const int64_t process_;
  const int64_t global_pid_;
  const std::function<int64_t(uint64_t)> at_;
  std::vector<Period> periods_;
  CallNumbers calls_;
  uint64_t unattributed_ = 0;  // works whose call was not seen so far
  std::unordered_map<uint32_t, KernelIds> kernels_;
  uint64_t kernel_count_ = 0;
  uint64_t copy_count_ = 0;
  uint64_t set_count_ = 0;
  uint64_t wait_count_ = 0;
};

}  // namespace slipstream::trace_db
