// What a recording of the devices adds to the calls that ask them for work: CUPTI takes its notes inside those calls.
//
// Known where the loop began before devices were recorded (tracer.device_after): by calls of the same function,
// decision and thread, in those steps and in the measured ones. Steps behind a recording say nothing: they stay longer
// (report.h, step_time_before_devices).
//
// Threading, errors: as the reader.
#pragma once

#include <vector>

#include "tools/trace/advise/facts.h"
#include "tools/trace/db/database_reader.h"

namespace slipstream::advise {

// Sets CallGroup::recording of calls that wait for nothing: by how much their median is longer. It stays 0 where it is
// not longer, or where there are too few calls of either kind to tell.
void ReadRecordingCost(trace_db::DatabaseReader* reader, const report::ProcessReport& process,
                       std::vector<CallGroup>* calls);

}  // namespace slipstream::advise
