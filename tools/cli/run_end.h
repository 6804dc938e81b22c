// The end of a run: its counters are read, the summary goes where its user wants it, and the run's directory is
// removed.
//
// Once for each run, by whoever is first: the root process as it exits (shim/run_root.h), else the watcher (watcher.h),
// else whoever comes across a run whose root is gone (run_directory.h).
// Threading: any process. The run's state file is locked meanwhile; it is removed with the directory, so what is not
// there any more has been ended.
#pragma once

#include <optional>
#include <string>

namespace slipstream::cli {

struct RunEnding {
  std::optional<int> exit_status{};  // as a shell shows it; nothing: nobody saw it
  bool now = true;                   // the root has ended just now; else when is not known
  bool print = true;                 // where the command's standard error was
  bool wait = false;                 // for somebody else who is ending it
};

// False: the run has been ended, or somebody else is at it.
bool EndRun(const std::string& directory, const RunEnding& ending);

// What `slipstream end-of-run DIRECTORY STATUS` does, which the root executes.
int EndRunOfRoot(const std::string& directory, const std::string& exit_status);

}  // namespace slipstream::cli
