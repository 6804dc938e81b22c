// What the devices of a process did, for people (text.h).
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// A section each device; a line that says why where nothing is known of any. Never empty.
std::string DevicesText(const Report& report, const ProcessReport& process, size_t columns);

}  // namespace slipstream::report
