// What is not in a report and what a trace cannot show, for people (text.h). Missing() of one process is in format.h.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// Lines of what was recorded in part, incomplete or left out, of all processes; one that says so where nothing is.
std::string MissingText(const Report& report, size_t columns);

// What nobody recorded of a process, and what failed in it.
std::string NotSeenText(const Report& report, const ProcessReport& process, size_t columns);

}  // namespace slipstream::report
