// Which of a process's devices is meant where one is.
#pragma once

#include <cstddef>
#include <optional>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// The index of the device that had a kernel running for the longest part of the measured time, however many ran beside
// each other; of several such the one whose kernels took longest together, then the first. Nothing: there is none.
// Threading: any.
std::optional<size_t> Busiest(const ProcessReport& process);

}  // namespace slipstream::report
