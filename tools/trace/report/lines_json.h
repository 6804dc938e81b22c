// The verdict, lines of devices' time and the program's ranges, as parts of the JSON of a report (json.cpp).
//
// Threading: pure functions.
#pragma once

#include <cstddef>

#include "tools/text/json_text.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

// Null where there are no processes.
text::Json VerdictJson(const Report& report);
// Null where the idle time is not known, or which call launched what.
text::Json IdleLinesJson(const Report& report, const DeviceReport& device);
text::Json KernelLinesJson(const Report& report, const DeviceReport& device);
text::Json RangesJson(const ProcessReport& process);
// What the host was at, of kHostStates, as the JSON spells it.
const char* HostName(size_t host);

}  // namespace slipstream::report
