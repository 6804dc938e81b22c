// A report for people: one screen of at most kColumns columns.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

inline constexpr size_t kColumns = 110;

std::string FormatReport(const Report& report);

}  // namespace slipstream::report
