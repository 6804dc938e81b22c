// Reads the records of all runs that a directory holds. Whoever may write there may have written anything.
//
// One file at a time, so memory does not grow with their number. Links are not followed, and only regular files of at
// most kMostRecordBytes are opened: a pipe would never end.
//
// Threading: no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tools/site/run_record.h"

namespace slipstream::site {

inline constexpr size_t kMostRecordBytes = size_t{4} << 20;

// Files that are no records, by reason.
struct Skipped {
  uint64_t foreign = 0;     // something else than a record
  uint64_t damaged = 0;     // truncated, or with values that no run has
  uint64_t newer = 0;       // of a newer slipstream
  uint64_t large = 0;       // than any record
  uint64_t irregular = 0;   // links, pipes, directories
  uint64_t unreadable = 0;  // not for this user, or gone wrong

  uint64_t all() const { return foreign + damaged + newer + large + irregular + unreadable; }
};

// False, with *error filled: the directory cannot be read. `take` gets each record once, in no order; those of runs
// that ended before `since_unix_ns` are left out.
bool ReadRecords(const std::string& directory, int64_t since_unix_ns,
                 const std::function<void(const RunRecord& record)>& take, Skipped* skipped, std::string* error);

// When the run ended, as far as that is known; else when it began.
int64_t EndOf(const RunRecord& record);

}  // namespace slipstream::site
