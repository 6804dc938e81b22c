// A comparison of two recorded runs as people read it, 80 columns wide, and as JSON.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/compare/runs/runs.h"

namespace slipstream::compare {

inline constexpr char kCompareRunsSchema[] = "slipstream-compare-runs-1";

std::string FormatRunsComparison(const RunsComparison& comparison);
std::string RunsComparisonJson(const RunsComparison& comparison, int exit_status);

}  // namespace slipstream::compare
