// A comparison as people read it, 80 columns wide where what was named allows it, and as JSON.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/compare/comparison.h"

namespace slipstream::compare {

inline constexpr char kCompareSchema[] = "slipstream-compare-1";

// Four digits with a unit for times, a metric with as many decimals as it is printed with.
std::string FormatFigure(const Comparison& comparison, const Figure& figure);
// "12.31 s", "8.374 ms"
std::string FormatSeconds(double seconds);

std::string FormatComparison(const Comparison& comparison);
std::string ComparisonJson(const Comparison& comparison, int exit_status);

}  // namespace slipstream::compare
