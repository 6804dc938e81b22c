// Findings as people read them, and as JSON.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/text/columns.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/ranks.h"

namespace slipstream::advise {

inline constexpr char kAdviseSchema[] = "slipstream-advise-1";

// What the text is to be shown on.
struct Page {
  size_t columns = text::kLeastColumns;
  bool color = false;
};

// No line is longer than the page. What is cut is whole in the JSON; a place keeps its line.
std::string FormatFindings(const Facts& facts, const Findings& findings, const Page& page = {});
std::string FindingsJson(const Facts& facts, const Findings& findings);
// Of several ranks: a table of them in front.
std::string FormatRanks(const report::Report& report, const RanksFindings& findings, const Page& page = {});
std::string RanksJson(const report::Report& report, const RanksFindings& findings);
// `advise --list`.
std::string FormatRules(size_t columns = text::kLeastColumns);
std::string RulesJson();

}  // namespace slipstream::advise
