// What slipstream gained, as people read it.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// Empty: it decided nothing that could gain or lose.
std::string GainsText(const ProcessReport& process, size_t columns);

}  // namespace slipstream::report
