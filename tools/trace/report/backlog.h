// Finds how far the host was ahead of the devices at the end of each step: what had been asked for by then and had not
// even begun. A piece of work that had begun does not count, so that one that runs as long as the program, on a stream
// of its own, makes no backlog.
//
// Threading, errors: as the reader.
#pragma once

#include <cstddef>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/processes.h"

namespace slipstream::report {

inline constexpr size_t kOtherLaunches = 8;

// Sets Step::backlog and `work_time` of all steps, and by them `use` and ProcessReport::ran_ahead (ChooseByBacklog).
//
// Where nothing is known of the devices, all that tells is the first wait after the measured steps that slipstream did
// not skip, if the thread has launched no more than kOtherLaunches since its last step: `work_time` is the time of each
// step by so much longer as all are with that wait. If that is more than a twentieth, the host ran ahead, and
// ProcessReport::waited_after is set.
void FindBacklogs(trace_db::DatabaseReader* reader, ProcessTable* table);

}  // namespace slipstream::report
