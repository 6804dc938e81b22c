// A report as one page with plots, which needs nothing else: no other file and no network, which its own policy
// forbids. A library draws them (plotly.h), with a few lines of the page's own (page_text.h).
//
// What a trace holds is text of strangers: all of it goes through the functions of figure.h.
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// A finding of advice, as texts; what may be empty is left out then.
struct PageFinding {
  std::string head;
  std::string rule;  // its name, for `slipstream help`
  std::string whose = {};
  std::string found = {};
  std::vector<std::string> evidence = {};
  std::vector<std::string> places = {};
  std::string change = {};
  std::string snippet = {};  // lines of code
};

// The verdict, the plots, the findings, and folded, all that the report has as text. `library`: PlotlyJs(); empty:
// there are no plots, and the page says so.
std::string ReportHtml(const Report& report, const std::string& library, const std::vector<PageFinding>& findings = {});

}  // namespace slipstream::report
