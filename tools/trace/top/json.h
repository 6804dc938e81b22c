// A View for scripts: one JSON object in one line, schema kTopSchema (docs/top.md). What is not known is null.
//
// Threading: pure functions.
#pragma once

#include <string>

#include "tools/trace/top/view.h"

namespace slipstream::top {

inline constexpr char kTopSchema[] = "slipstream-top-1";

std::string ViewJson(const View& view);

}  // namespace slipstream::top
