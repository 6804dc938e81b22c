// A report on one screen: what to act on, where the time of a step went on the host and on the device, and the lines,
// the kernels and the memory that have most. text.h has all of it.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/text/page.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

// No line is longer than the page, which is 80 columns or more. Of a run in which nothing is missing it has 24 lines at
// most, however many processes, devices, lines and kernels there are. Figures are those of FormatReport.
std::string FormatOverview(const Report& report, const text::Page& page = {});

}  // namespace slipstream::report
