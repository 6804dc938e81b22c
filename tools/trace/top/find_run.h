// Finds the run that a user means: by a process of it, by one that started it, by its directory, or without a name if
// there is only one.
//
// Threading: any thread.
// Errors: as a text for people that says what to do next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/top/proc_files.h"

namespace slipstream::top {

struct FoundRun {
  std::vector<std::string> directories;  // more than one where a launcher started a `slipstream run` for each rank
  std::optional<int32_t> pid;            // of the process that was named, where it is one that may call CUDA
  std::string error;                     // empty: found
};

// `name`: a process's number, or a run's directory.
FoundRun FindRun(const ProcFiles& processes, const std::string& name);

// The one of this user's that lives here; else what there is, as an error.
FoundRun FindOnlyRun(const ProcFiles& processes);

// Whether a process that lives has this directory as its run's.
bool IsInUse(const ProcFiles& processes, const std::string& directory);

}  // namespace slipstream::top
