// Plots as JSON for plotly.js, in elements of an HTML page which the page's script draws (page_text.h). Nobody's text
// can end such an element or become markup.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace slipstream::report {

// Text as it may stand between tags and in a quoted attribute: with &lt; and the like, control characters written out.
std::string HtmlText(const std::string& text);
// Text that a plot shows: the library takes tags in it for formatting, and &lt; for what it stands for.
std::string PlotText(const std::string& text);

// What an axis counts in.
struct Unit {
  double ns;           // ns or bytes in one
  const char* suffix;  // " ms"

  double Of(int64_t number) const { return static_cast<double>(number) / ns; }
};
// In which the largest number is 1 or more.
Unit UnitOfTime(int64_t largest_ns);
Unit UnitOfBytes(int64_t largest);

using PlotlyJson = nlohmann::json;

// A series of bars with no bar yet, and one more of them; each has `title` where the pointer is.
PlotlyJson Bars(const std::string& name, const char* color);
void AddBar(PlotlyJson* bars, const PlotlyJson& x, const PlotlyJson& y, const std::string& title);

// `traces` and `layout` as the library documents them. `name`: what it is for those who cannot see it.
std::string Figure(const std::string& name, const PlotlyJson& traces, const PlotlyJson& layout);
// Of frames (FlameGraph), as arrays: names, details, parents, kinds, times, counts; `depth` of them, and `what` is
// counted. Texts are plain here.
std::string FlameFigure(const std::string& name, const PlotlyJson& frames);

}  // namespace slipstream::report
