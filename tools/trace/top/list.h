// All processes of a View as a table, a row each, for whoever looks at a machine: lines.h shows one of them.
//
// Of a narrow window the least important columns are left out; of a wide one the command and the hottest line get what
// is left. No row is wider than the window.
//
// Threading: pure functions.
#pragma once

#include <vector>

#include "tools/trace/top/lines.h"
#include "tools/trace/top/view.h"

namespace slipstream::top {

std::vector<Line> DrawList(const View& view, const Picture& picture);

}  // namespace slipstream::top
