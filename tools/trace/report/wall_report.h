// What a WallSweep found out, as a report has it: with the lines' names.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/trace/report/report.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {

// Where a copy went: as far as slipstream's decision about it tells, or by its kind (of ENUM_CUDA_MEMCPY_OPER).
WallSweep::Direction DirectionOf(std::string_view decision);
WallSweep::Direction DirectionOf(int64_t copy_kind);

// Sets wall, pause_time and pace of a process. `wall` is finished.
void TakeWall(run::Names* names, const WallSweep& wall, ProcessReport* process);

}  // namespace slipstream::report
