// The line of `slipstream run` about the trace of its run: how much there is, where, and what is missing. If the trace
// is missing, empty or cut short, the line says so, with the reason.
//
// Threading: pure functions; SumUpTrace reads files.
#pragma once

#include <string>
#include <vector>

#include "tracer/counters/counter_reader.h"
#include "tracer/spool/spool_outcome.h"

namespace slipstream::cli {

struct TraceSummary {
  std::string directory;  // empty: none could be made
  std::vector<tracer::SpoolOutcome> files;
  std::vector<std::string> troubles;  // what is missing and why, for people; empty: nothing is
};

// `processes` are those that made a hooked call, as far as counters tell; `counted`: they would. `ending`: the process
// whose end this is, which is not gone yet; 0: none is.
TraceSummary SumUpTrace(const std::string& directory, const std::vector<tracer::ProcessCounts>& processes, bool counted,
                        int64_t ending);

// One line, with its end.
std::string FormatTrace(const TraceSummary& trace);
// The command that reads it, to be pasted into a shell; empty where there is nothing to read.
// Empty where there is nothing to read.
std::string FormatHint(const TraceSummary& trace);
// Whether any process recorded a call.
bool HasCalls(const TraceSummary& trace);

}  // namespace slipstream::cli
