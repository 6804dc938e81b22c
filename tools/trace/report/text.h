// A report for people.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/text/page.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

// Of the page, which is as wide everywhere.
inline constexpr size_t kPageColumns = 110;

// All of it, without an end at any screen's. No line is longer than the page, which is 80 columns or more. The JSON has
// whole what is cut; a place keeps its line.
std::string FormatReport(const Report& report, const text::Page& page = {.columns = kPageColumns});

// Which run it is of, and what of it is missing.
std::string RunText(const Report& report, size_t columns);

}  // namespace slipstream::report
