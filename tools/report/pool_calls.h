// What the pool of device memory answered by itself, and what calls that reached the driver took in the same run. The
// two stand beside each other: what a call that was served would have taken nobody knows.
//
// Memory: nothing for a call.
// Threading, errors: as the reader.
#pragma once

#include "tools/report/processes.h"

namespace slipstream::report {

void ReadPoolCalls(trace_db::DatabaseReader* reader, ProcessTable* table);

}  // namespace slipstream::report
