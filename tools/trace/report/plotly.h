// plotly.js, the library that draws the plots of a page, as this build carries it (MIT license; NOTICE.md).
//
// Threading: a pure function.
#pragma once

#include <string>

namespace slipstream::report {

// Its text (about 5 MB), for a <script> element; empty: it was not there when slipstream was built, or what was
// embedded cannot be read.
std::string PlotlyJs();

// How to build with it, as words behind "To have plots, ".
inline constexpr char kHowToHavePlots[] = "run tools/setup, which fetches plotly.js, and build slipstream again.";

}  // namespace slipstream::report
