// The one pass over the calls, kernels and copies of a database, in the order of their starts, whatever the number of
// processes.
//
// Threading, errors: as the reader.
#pragma once

#include "tools/report/processes.h"
#include "tools/report/report.h"
#include "tools/trace_db/database_reader.h"

namespace slipstream::report {

// Fills in what needs the calls.
void PassOverCalls(trace_db::DatabaseReader* reader, const ReportOptions& options, ProcessTable* table, Report* report);

}  // namespace slipstream::report
