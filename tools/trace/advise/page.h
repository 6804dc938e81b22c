// Findings for the page of a report (tools/trace/report/html.h), in the order and with the figures of the text.
//
// Threading: pure functions.
#pragma once

#include <vector>

#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/ranks.h"
#include "tools/trace/report/html.h"

namespace slipstream::advise {

std::vector<report::PageFinding> FindingsOfPage(const Facts& facts, const Findings& findings);
std::vector<report::PageFinding> FindingsOfPage(const report::Report& report, const RanksFindings& findings);

}  // namespace slipstream::advise
