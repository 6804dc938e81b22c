// Lines of the program that a device's time belongs to, and the program's own ranges, for people (text.h).
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// "train.py:42 (step)", of at most `columns`, as SiteLabel.
std::string LineLabel(const LineReport& line, size_t columns);

// A row each line with most of the idle time while the host was in that state, and one for the rest: they add up to it.
// Empty where it is short, or no line is known.
std::string IdleLinesText(const ProcessReport& process, const DeviceReport& device, size_t host, size_t columns);

// The lines with most kernel time; empty: nothing says which call launched what.
std::string KernelLinesText(const ProcessReport& process, const DeviceReport& device, size_t columns);

// The program's own ranges with most time; empty: there are none.
std::string RangesText(const ProcessReport& process, size_t columns);

}  // namespace slipstream::report
