// The program's own NVTX ranges with their time: on the host, and of the kernels that were launched within them.
//
// Memory: a little for each name, up to kRangeNamesMost of them in a process, for each range that is open at a moment,
// and for each step.
// Threading, errors: as the reader.
// Times are ns of the measured time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"

namespace slipstream::report {

struct ProcessTable;

inline constexpr size_t kRangeNamesMost = 4096;

// All ranges of one name in one domain.
struct RangeReport {
  std::string name;
  std::string domain;       // empty: the default one
  uint64_t count = 0;       // that began in the measured time
  int64_t time = 0;         // in which at least one of them was there, summed up over threads
  uint64_t kernels = 0;     // whose calls were made in the measured time within one of them, on its thread
  int64_t kernel_time = 0;  // their durations, summed up
};

struct RangesReport {
  std::vector<RangeReport> names;  // by time, the most first; without those that are the steps
  bool kernels_known = false;      // else nothing says which call launched what
  uint64_t left_out = 0;           // ranges in the measured time whose names are more than kRangeNamesMost
};

// Fills in `ranges` of each process. Its steps are chosen.
void ReadProgramRanges(trace_db::DatabaseReader* reader, ProcessTable* table);

}  // namespace slipstream::report
