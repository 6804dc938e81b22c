// Writes a run's record into the directory of its site.
//
// A temporary file in the directory, ".slipstream-XXXXXX", takes the record's name when it is whole. That needs no
// right to list the directory, so that users need not see each other's (mode 1733, or 3773 where a group reads them).
//
// Threading: no state.
// Errors: as a text for people; the directory is then as it was.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/site/run_record.h"

namespace slipstream::site {

// Of files that are being written. Readers pass over them.
inline constexpr std::string_view kUnfinishedPrefix = ".slipstream-";
inline constexpr std::string_view kRecordSuffix = ".json";

// Why it could not be written; empty: it is there. `for_group`: 0640, else 0600, whatever the umask. The name begins
// with the time of the run's start, the host and the number of the run's process.
std::string WriteRecordFile(const std::string& directory, bool for_group, const RunRecord& record,
                            const std::string& text);

}  // namespace slipstream::site
