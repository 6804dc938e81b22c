// `slipstream run`: a command, with the library in front of it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slipstream::cli {

struct RunOptions {
  std::optional<std::string> policy;   // file; nothing: SLIPSTREAM_POLICY, else the defaults
  std::optional<std::string> summary;  // file for the JSON summary
  bool quiet = false;                  // no summary on standard error
  bool record = false;                 // leave a trace, whatever the policy says
  std::vector<std::string> command;    // never empty
};

// Does not return when the command could be started: this process then ends as the command did. Otherwise an exit code
// of exit_codes.h, with the reason on standard error.
int Run(const RunOptions& options);

// The variables of a command under slipstream: those of this process, LD_PRELOAD with the library in front of what
// stands there already (S52), and what the policy's [environment] adds where the user has set nothing.
struct PreloadEnvironment {
  std::vector<std::string> variables;  // NAME=value
  std::string error;                   // why it cannot be done; empty: it can
};
struct PreloadRequest {
  std::vector<std::pair<std::string, std::string>> inherited{};
  std::vector<std::pair<std::string, std::string>> additions{};  // of the policy
  std::string library{};
  std::string policy_path{};    // absolute; empty: none
  std::string run_directory{};  // empty: none
  bool tool_of_nvtx = false;    // the library is to get the command's own NVTX calls, unless another tool does
};
PreloadEnvironment MakePreloadEnvironment(const PreloadRequest& request);

}  // namespace slipstream::cli
