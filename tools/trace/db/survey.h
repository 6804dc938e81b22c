// A first pass over a whole spool file: it finds what the rows of all files depend on, before the first row is written.
// Reading takes a small part of the time of writing the rows.
//
// Memory: a bounded amount a file; of it up to 40 bytes for each of kMostNamedRanges.
// Threading: plain data, and a function for one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/device_clock.h"
#include "tools/trace/db/launch_sequence.h"
#include "tools/trace/db/step_finder.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::trace_db {

// After so many, whoever reads looks whether to stop, and says how far it is.
inline constexpr uint64_t kRecordsBetweenLooks = 4096;

// What a process's readings of its clocks (RecordKind::kClock) say about wall time minus CLOCK_MONOTONIC, in ns.
struct ClockReadings {
  uint64_t count = 0;
  int64_t difference = 0;  // by the reading that took the shortest time
  uint64_t error = 0;      // of that one: it took twice as long
  int64_t lowest = 0;      // of all: where they differ by more than they took, somebody set the wall clock
  int64_t highest = 0;

  void Add(const tracer::TraceRecord& clock);
  void Add(const ClockReadings& others);
};

struct SpoolSurvey {
  std::string path;
  std::string file;  // its name
  uint64_t bytes = 0;
  std::string error;  // why it is no spool that can be read; then the rest is empty
  uint64_t start_unix_ns = 0;
  std::map<std::string, std::string> facts;
  ClockReadings clocks;
  DeviceClock device_clock;
  DevicePeriods device_periods;
  ContextDevices context_devices;
  std::optional<uint64_t> first_ns;  // of CLOCK_MONOTONIC: the earliest start
  uint64_t records = 0;
  // The program's own NVTX ranges that are its steps: of one thread, and of one kind of name (step_names.h).
  struct StepRanges {
    uint32_t thread = 0;
    std::string base;
    std::vector<bool> are_steps;  // of each such range, in the reader's order: others lie within a step, or around all
  };
  std::optional<StepRanges> step_ranges;
  // The line that begins a step; none where the process recorded its steps itself, or named them.
  std::optional<StepFinder::Found> step_line;
  // Its steps by what they launch, where no line brings a batch to the device, and by its lines they would be others.
  std::optional<LaunchSequence::Found> step_launches;
  std::string why_no_steps;  // empty: there are steps

  // Of a fact that is a number (process_facts.h).
  std::optional<int64_t> Number(const char* key) const;
  std::string Text(const char* key) const;  // empty: it is not there
};

// Of a process with more ranges that are named as steps, none is one: it names something else so, and its steps are
// looked for by its lines. A loop that has run for two hours with steps of a millisecond has as many.
inline constexpr size_t kMostNamedRanges = size_t{1} << 23;

// `look` is called now and then with the bytes read so far; false from it ends the survey early.
SpoolSurvey SurveySpool(const std::string& path, const std::function<bool(uint64_t)>& look,
                        size_t most_named_ranges = kMostNamedRanges);

}  // namespace slipstream::trace_db
