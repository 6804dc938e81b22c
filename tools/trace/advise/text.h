// Findings as people read them, and as JSON.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/text/page.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/ranks.h"

namespace slipstream::advise {

inline constexpr char kAdviseSchema[] = "slipstream-advise-1";

// What is missing of the processes that the findings are of, and of the run: a sentence each. Empty: nothing.
std::vector<std::string> MissingOf(const Facts& facts);
std::vector<std::string> MissingOf(const report::Report& report, const RanksFindings& findings);

// What a finding would gain of all recorded steps of `ranks` processes like this one, in ns of a device: each that the
// process used, and one where that was not recorded. Nothing: the gain is not known.
std::optional<double> GpuTimeOf(const report::ProcessReport& process, const Advice& advice, size_t ranks = 1);

// "loader-wait: about 1.20 ms per step (12.0 %), confidence high". `whole`: the time that shares are of. `ranks`: how
// many it is of.
std::string FindingHead(const Rule& rule, const Advice& advice, const report::ProcessReport& process, int64_t whole,
                        size_t ranks);
// "train.py:42 (step)", of at most `columns`; the line stays.
std::string PlaceText(const Place& place, size_t columns);
// Which ranks a finding is of; empty: it is of the whole run.
std::string WhoseText(const report::Report& report, const RanksFindings& findings, const RankFinding& found);

// What is missing stands in front of all findings. No line is longer than the page. What is cut is whole in the JSON; a
// place keeps its line.
std::string FormatFindings(const Facts& facts, const Findings& findings, const text::Page& page = {});
// `partial`: of what could be read of a damaged run; it is so too where MissingOf says something.
std::string FindingsJson(const Facts& facts, const Findings& findings, bool partial = false);
// Of several ranks: a table of them in front.
std::string FormatRanks(const report::Report& report, const RanksFindings& findings, const text::Page& page = {});
std::string RanksJson(const report::Report& report, const RanksFindings& findings, bool partial = false);
// `advise --list`.
std::string FormatRules(size_t columns = text::kLeastColumns);
std::string RulesJson();

}  // namespace slipstream::advise
