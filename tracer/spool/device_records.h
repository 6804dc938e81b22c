// A queue of device records, with the names of kernels, from the profiler's threads to the spool's writer.
//
// Threading: Add, KernelName, Dropped and Say from any thread, under a lock that is held briefly; Take by one.
// Hazard: runs in a profiler's callbacks: no CUDA call, no call of the profiler. May allocate.
// Errors: records without room are counted; a name or fact without memory is left out. Nothing is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracer/spool/activity_record.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/spool_format.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

class DeviceRecords {
 public:
  // 20 MiB: the writer's period many times over. More is dropped.
  static constexpr size_t kMaxWaiting = size_t{1} << 18;

  struct Name {
    NameTable table;
    uint32_t number;
    std::string text;
  };
  struct Waiting {
    std::vector<Name> names;  // to be written before the records
    Facts facts;
    std::vector<ActivityRecord> activities;
    std::vector<TraceRecord> readings;  // of the device's clock; to be written behind what came before them, and that
                                        // is all activities
  };

  void Add(std::span<const ActivityRecord> activities);
  void AddReading(const TraceRecord& clock);
  void Dropped(uint64_t count);
  // The number of a kernel's name, from 1. A known name is found by its address; the text is compared, in case it has
  // changed.
  uint32_t KernelName(const char* name);
  void AddName(NameTable table, uint32_t number, std::string_view text);
  void Say(std::string_view key, std::string_view value);

  // All that is there, each in the order in which it came.
  void Take(Waiting* waiting);
  // So far.
  uint64_t dropped() const;

 private:
  mutable std::mutex mutex_;
  Waiting waiting_;
  uint64_t dropped_ = 0;
  std::map<std::string, uint32_t, std::less<>> kernels_;
  std::unordered_map<const char*, decltype(kernels_)::const_iterator> known_;
};

}  // namespace slipstream::tracer
