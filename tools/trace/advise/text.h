// Findings as people read them, 110 columns wide at most, and as JSON.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/trace/advise/advice.h"

namespace slipstream::advise {

inline constexpr char kAdviseSchema[] = "slipstream-advise-1";

std::string FormatFindings(const Facts& facts, const Findings& findings);
std::string FindingsJson(const Facts& facts, const Findings& findings);
// `advise --list`.
std::string FormatRules();
std::string RulesJson();

}  // namespace slipstream::advise
