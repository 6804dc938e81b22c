// Finds how fragmented the idle memory of a pool was, from its readings and the allocator's decisions.
//
// What is idle at a decision is what the last reading said, less what was handed out or given back since, plus what was
// kept. Readings and decisions do not say together which device they are about, so only a process with the pool of one
// device is told of.
//
// Threading, errors: as the reader.
#pragma once

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/processes.h"

namespace slipstream::report {

// Behind ReadMemory.
void ReadFragmentation(trace_db::DatabaseReader* reader, ProcessTable* table);

}  // namespace slipstream::report
