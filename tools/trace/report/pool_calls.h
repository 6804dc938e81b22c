// Compares the calls that the pool of device memory answered by itself with those that reached the driver in the same
// run. The two are not multiplied: how long a served call would have taken is not known.
//
// Memory: nothing for a call.
// Threading, errors: as the reader.
#pragma once

#include "tools/trace/report/processes.h"

namespace slipstream::report {

void ReadPoolCalls(trace_db::DatabaseReader* reader, ProcessTable* table);

}  // namespace slipstream::report
