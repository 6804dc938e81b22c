// One step in detail: the calls of each thread and what each stream of the devices ran, for a picture.
//
// Threading, errors: as the reader.
#pragma once

#include <optional>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// The measured step of median time of a process. Nothing where it has no steps.
std::optional<Timeline> MakeTimeline(trace_db::DatabaseReader* reader, const Report& report, size_t process);

}  // namespace slipstream::report
