// `slipstream compare RUN RUN`: two recorded runs, compared: what of a step got longer or shorter. tools/compare/runs
// has the arithmetic.
//
// Threading: call from one thread. Writes to standard output, and to standard error (problems, and progress where that
// is a terminal).
// Hazard: a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after what is half done has been
//   removed; meanwhile their handlers are its own.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace slipstream::cli {

struct CompareRunsOptions {
  std::vector<std::string> runs;           // the words in their place
  std::optional<int64_t> rank{};           // the processes of this rank; else those that the reports are of
  std::optional<double> floor{};           // what two runs of one program may differ by; nothing: compare::kFloor
  std::optional<double> fail_if_slower{};  // a share: kSlower if the second run is shown to be slower by more
  bool json = false;
  bool verbose = false;
  bool has_command = false;              // a command is to be compared
  std::vector<std::string> others = {};  // further options that were given, which are for a command
};

// Nothing: two recorded runs were not meant, and all that was said is for a command.
std::optional<int> CompareRuns(const CompareRunsOptions& options, const std::string& version);

}  // namespace slipstream::cli
