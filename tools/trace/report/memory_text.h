// What the report says of memory beside who had it: what else was in use, fragmentation, and memory over time, for
// people (text.h).
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "tools/trace/report/report.h"

namespace slipstream::report {

// What the driver said was in use, and what it was made of. Empty: it was not asked.
std::string DeviceUseText(const ProcessReport& process, const HeldReport& held, size_t columns);

// What idle memory of the pool was good for. Empty: there is nothing to say.
std::string FragmentationText(const ProcessReport& process, const MemoryReport& pool, size_t columns);

// A row of columns for all blocks and for those who had most, and one that marks the peak. Empty: there was none.
std::string MemoryColumnsText(const HeldReport& held, size_t columns);

// " (cuDNN workspace)" behind a library that allocates such, by its path; else empty.
std::string WorkspaceOf(const std::string& library);

}  // namespace slipstream::report
