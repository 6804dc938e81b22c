// The ranks of a run beside each other, for people (text.h).
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/trace/advise/ranks.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {

// "rank 3", "ranks 0-2, 5"; where one has no rank, names of processes. `ranks`: indices of RanksFindings::ranks,
// ascending.
std::string RankNames(const report::Report& report, const RanksFindings& findings, const std::vector<size_t>& ranks);

// A row each rank, then which one is the slowest, how uneven their work is and what they wait in communication.
std::string RanksText(const report::Report& report, const RanksFindings& findings, size_t columns);

}  // namespace slipstream::advise
