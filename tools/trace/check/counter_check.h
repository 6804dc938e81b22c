// Holds the records of a trace against what its processes counted (SLIPSTREAM_COUNTERS).
//
// A call or decision is recorded before it is counted. So all that was counted before the recording ended is in the
// trace or known to be missing from it; and what is in the trace was counted by the time of the second totals, which
// were read behind the last record. (A thread may be between the two for as long as the last round takes; it would have
// to be stopped for that.) Where a name's calls are all there, their bytes, errors and times have to add up, too.
//
// Threading: one thread.
// Errors: as the reader's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"

namespace slipstream::trace_check {

// One figure of one function or decision.
struct CounterDifference {
  std::string name;    // as the database has it
  std::string figure;  // "calls", "bytes", ...
  bool is_decision = false;
  uint64_t counted = 0;  // at least where there are too few in the trace, at most where there are too many
  uint64_t in_trace = 0;
};

struct CounterCheck {
  std::string why_not;         // there is nothing to hold the calls against; empty: there is
  uint64_t counted = 0;        // calls, before the recording ended
  uint64_t while_ending = 0;   // calls and decisions counted behind that, which may be in the trace or not
  uint64_t known_missing = 0;  // records, as the file says
  uint64_t unexplained = 0;    // calls and decisions that are missing beyond that
  std::vector<CounterDifference> differences;  // that nothing explains
};

// By the number of the process. Empty for a database without such a table.
std::map<int64_t, CounterCheck> CheckCounters(trace_db::DatabaseReader* reader);

// "cudaMemcpyAsync: 1,000 calls counted, 998 in the trace, 0 known to be missing"
std::string DifferenceText(const CounterDifference& difference, const CounterCheck& of);

// A line for each difference, with the process in front where there are several; empty: there are none.
std::string FormatCounterWarnings(trace_db::DatabaseReader* reader);

}  // namespace slipstream::trace_check
