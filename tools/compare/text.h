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
// A share that was asked for: "3 %", "2.5 %".
std::string PercentOf(double share);
// Whether `what` is slower by more than was asked for (--fail-if-slower), and if that cannot be told, `how` it could.
std::string SlowerText(const std::string& what, Slower slower, double limit, const std::string& how);
// "12.31 s", "8.374 ms"
std::string FormatSeconds(double seconds);

// Words in lines of 80 columns, each line behind `indent`; the first begins with `head`.
std::string Wrapped(const std::string& head, const std::string& indent, const std::string& text);

// "1.234 times the speed (1.221 to 1.249)", of the second side; without an interval where there is none.
std::string RatioText(const Comparison& comparison);

std::string FormatComparison(const Comparison& comparison);
// A table, to be pasted into a pull request, and the verdict.
std::string ComparisonMarkdown(const Comparison& comparison);
std::string ComparisonJson(const Comparison& comparison, int exit_status);

}  // namespace slipstream::compare
