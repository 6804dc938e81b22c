// Reads what a database says about its processes, before their calls: who they are, their steps, what is missing, and
// what their devices' pools held.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

struct ProcessTable {
  std::vector<ProcessReport> processes;
  std::unordered_map<int64_t, size_t> by_id;          // processId
  std::unordered_map<int64_t, size_t> by_global_pid;  // without a thread
  std::vector<int64_t> step_global_tid;               // of each
  std::vector<std::vector<Interval>> drops;           // of each, when records are missing
  std::vector<std::vector<Interval>> pauses;          // and when the recording was paused

  // By any globalTid or globalPid of it; -1: of none.
  int64_t OfGlobal(int64_t global) const;
};

// globalPid of a globalTid.
constexpr int64_t GlobalPidOf(int64_t global) { return global & ~int64_t{0xFFFFFF}; }

// With steps chosen (steps.h), sorted by rank.
ProcessTable ReadProcesses(trace_db::DatabaseReader* reader);

// Who asked for device work past every hook.
void ReadLibraries(trace_db::DatabaseReader* reader, ProcessTable* table);

// SLIPSTREAM_MEMORY; `first` and `last` of the run, for the points.
void ReadMemory(trace_db::DatabaseReader* reader, int64_t first, int64_t last, ProcessTable* table);

}  // namespace slipstream::report
