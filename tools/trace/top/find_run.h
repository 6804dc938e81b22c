// Finds the run that a user means: by a process of it, by one that started it, or by its directory; and all runs of the
// machine.
//
// Threading: any thread.
// Errors: as a text for people that says what to do next.
#pragma once

#include <sys/types.h>

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

struct RunHere {
  std::string directory{};
  int32_t first = 0;             // the process that the others come from, by its number
  std::optional<uid_t> owner{};  // of that process
};
struct RunsHere {
  std::vector<RunHere> runs{};       // with a process that lives, in the order of the first's number
  std::vector<int32_t> uncounted{};  // processes under slipstream that keep no counters
};

// All runs of this machine whose processes this user may look at: root everybody's, others their own.
RunsHere FindAll(const ProcFiles& processes);

// The process to show where `pid` is meant: itself, the first one that comes from it, or the nearest that it comes from
// (a worker of a loader makes no CUDA calls). Nothing: none of `shown` has to do with it.
std::optional<int32_t> ShownFor(const ProcFiles& processes, int32_t pid, const std::vector<int32_t>& shown);

// Whether a process that lives has this directory as its run's.
bool IsInUse(const ProcFiles& processes, const std::string& directory);

}  // namespace slipstream::top
