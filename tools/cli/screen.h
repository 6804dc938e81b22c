// What a text on standard output may look like: how wide it is, and whether in colors.
//
// Threading: reads the environment; call from one thread.
#pragma once

#include <cstddef>

#include "policy/environment.h"
#include "tools/text/page.h"

namespace slipstream::cli {

// As the variable COLUMNS says, else as wide as the terminal, else 80; between 80 and 160 (text::ColumnsFor).
size_t ScreenColumns();

// Whether standard output is a terminal that shows colors, and NO_COLOR and TERM=dumb do not forbid them.
bool OutputTakesColor(const policy::Environment& environment);

// Standard output, as wide as the screen and in color where it takes that.
text::Page OutputPage();

// Whether standard output is a terminal that a pager can show a page on: not with TERM=dumb, or none.
bool OutputTakesEscapes();

// Whether standard error is a terminal on which a line can be written over: not with TERM=dumb.
bool ErrorsTakeEscapes();

}  // namespace slipstream::cli
