// The verdict of a report, for people.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/trace/report/report.h"
#include "tools/trace/report/verdict.h"

namespace slipstream::report {

// One sentence, without a line break and without a full stop.
std::string VerdictSentence(const Report& report, const Verdict& verdict);

// "VERDICT: ...", of lines of at most kColumns; empty where there is none.
std::string VerdictText(const Report& report);

}  // namespace slipstream::report
