// A report for scripts: one JSON object, schema kReportSchema (docs/report.md). It has all that the screen has, and the
// same figures.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

inline constexpr char kReportSchema[] = "slipstream-report-1";

// `partial`: something of the run could not be read.
std::string ReportJson(const Report& report, bool partial);

}  // namespace slipstream::report
