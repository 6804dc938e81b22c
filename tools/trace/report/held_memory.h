// Finds who had the memory of devices, from the blocks that the program's calls got and gave back
// (SLIPSTREAM_ALLOCATIONS).
//
// It goes through the blocks in the order of time: once for the peak of each device, once for who had what then, once
// for the parts of the run, and once more for a plot.
//
// Memory: a block that is not given back, and what the report has.
// Threading, errors: as the reader.
#pragma once

#include "tools/trace/report/processes.h"

namespace slipstream::report {

// `points`: also for a plot, of so many parts of the time from `first` to `last`.
void ReadHeldMemory(trace_db::DatabaseReader* reader, bool points, int64_t first, int64_t last, ProcessTable* table);

}  // namespace slipstream::report
