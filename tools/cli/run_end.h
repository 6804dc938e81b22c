// Ends a run: reads its counters, writes the summary where its user wants it, and removes the run's directory.
//
// A run is ended once, by the first of these: the root process as it exits (shim/run_root.h), the watcher (watcher.h),
// or a command that finds a run whose root is gone (run_directory.h).
// Threading: any process. The run's state file is locked meanwhile. It is removed with the directory: a run without it
// has been ended.
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

// False: the run has been ended, or another process is ending it.
bool EndRun(const std::string& directory, const RunEnding& ending);

// What `slipstream end-of-run DIRECTORY STATUS` does, which the root executes.
int EndRunOfRoot(const std::string& directory, const std::string& exit_status);

}  // namespace slipstream::cli
