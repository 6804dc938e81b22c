// The one pass over the calls, kernels and copies of a database, in the order of their starts, whatever the number of
// processes.
//
// Threading, errors: as the reader.
#pragma once

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/processes.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

// Fills in what needs the calls.
void PassOverCalls(trace_db::DatabaseReader* reader, const ReportOptions& options, ProcessTable* table, Report* report);

}  // namespace slipstream::report
