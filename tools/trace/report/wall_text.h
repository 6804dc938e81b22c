// The whole time of a process, the pauses between its steps and its slow steps, for people (text.h).
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// "200 steps, measured", "other phases, 2 times"
std::string Label(WallPart part, uint64_t count);

// A row each part; empty where there is nothing but the recorded time.
std::string WallText(const ProcessReport& process, size_t columns);

// "; a step takes 10.0 ms, and 90.0 ms are between two: one every 100 ms"; empty where that hardly matters.
std::string PauseText(const ProcessReport& process);

// A row each step that it lists; empty: there are none.
std::string SlowStepsText(const ProcessReport& process, size_t columns);

}  // namespace slipstream::report
