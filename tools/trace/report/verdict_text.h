// The verdict of a report and its slowest rank, for people.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"
#include "tools/trace/report/verdict.h"

namespace slipstream::report {

// One sentence, without a line break and without a full stop.
std::string VerdictSentence(const Report& report, const Verdict& verdict);

// Which rank holds the others up and how that shows, without a full stop: "slowest: rank 3, ...". There is a spread.
std::string SlowestSentence(const Report& report);

// "VERDICT: ..."; empty where there is none.
std::string VerdictText(const Report& report, size_t columns);

}  // namespace slipstream::report
