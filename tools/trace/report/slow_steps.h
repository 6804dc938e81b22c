// The steps that took far longer than the others of their loop, each with what it was longer in.
//
// Threading, errors: as the reader.
#pragma once

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {

inline constexpr size_t kSlowStepsListed = 5;

// Sets slow_steps and slow_step_count of a process whose steps are summed up. Asks for the calls of those that it
// lists, and of the median one.
void FindSlowSteps(trace_db::DatabaseReader* reader, run::Names* names, ProcessReport* process);

}  // namespace slipstream::report
