// A report as one page with plots, which needs nothing else: no script, no network (its own policy forbids both).
//
// What a trace holds is text of strangers: all of it goes through HtmlText (svg.h).
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

std::string ReportHtml(const Report& report);

}  // namespace slipstream::report
