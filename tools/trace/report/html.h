// A report as one page with plots, which needs nothing else: no other file and no network, which its own policy
// forbids. A library draws them (plotly.h), with a few lines of the page's own (page_text.h).
//
// What a trace holds is text of strangers: all of it goes through the functions of figure.h.
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// `library`: PlotlyJs(); empty: there are no plots, and the page says so.
std::string ReportHtml(const Report& report, const std::string& library);

}  // namespace slipstream::report
