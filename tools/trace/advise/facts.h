// The facts that the rules of advice look at: a process of a report, and its calls, kernels and copies of the measured
// time, summed by line, function and decision.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {

// A line of the program; none: not known.
struct Place {
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  bool known() const { return !file.empty(); }
  bool operator==(const Place&) const = default;
};

// Calls that have all of these in common.
struct CallGroup {
  std::string function;  // as programs write it
  Place place;
  std::string decision;  // what slipstream decided; empty: nothing
  bool of_step_thread = true;
  uint64_t calls = 0;
  int64_t bytes = 0;
  int64_t time = 0;   // on the host
  int64_t least = 0;  // bytes of one
  int64_t most = 0;
};

// Kernels, copies (copyKind of ENUM_CUDA_MEMCPY_OPER) and sets (-1) of the devices, by the line that asked for them.
struct WorkGroup {
  int64_t device = 0;
  std::string kernel;  // its name; empty: a copy or a set
  int64_t copy_kind = -1;
  bool pageable = false;  // a copy from or to pageable memory
  Place place;
  uint64_t count = 0;
  int64_t bytes = 0;
  int64_t time = 0;
  int64_t least = 0;
  int64_t most = 0;
};

struct Facts {
  const report::Report* report = nullptr;
  const report::ProcessReport* process = nullptr;
  std::vector<CallGroup> calls;
  std::vector<WorkGroup> work;
  bool devices_recorded = false;         // kernels of the measured time are in the trace
  std::optional<int64_t> device_memory;  // bytes of the largest device; nothing: not known
  std::vector<int64_t> step_times;       // of the measured steps
  std::optional<int64_t> processors;     // that the process may use
  std::optional<int64_t> shared_memory;  // bytes of /dev/shm

  // A count of the measured time, of one step.
  double CountPerStep(uint64_t count) const { return static_cast<double>(count) / process->divisor(); }
  // The share of one step of a sum over the measured time.
  int64_t PerStep(int64_t sum) const {
    return process->has_steps && process->measured_steps > 1 ? sum / static_cast<int64_t>(process->measured_steps)
                                                             : sum;
  }
  // Time in which no device was at work, of one step; nothing: not known.
  std::optional<int64_t> IdlePerStep() const;
};

// The report must have been made of the same database, and outlive the facts.
Facts ReadFacts(trace_db::DatabaseReader* reader, const report::Report& report, size_t process);

}  // namespace slipstream::advise
