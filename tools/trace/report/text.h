// A report for people.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// Of the page, which is as wide everywhere.
inline constexpr size_t kPageColumns = 110;

// No line is longer than `columns`, which is 80 or more. The JSON has whole what is cut; a place keeps its line.
std::string FormatReport(const Report& report, size_t columns = kPageColumns);

}  // namespace slipstream::report
