// `slipstream run`: a command, with the library in front of it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/policy.h"
#include "tools/cli/expandable_segments.h"

namespace slipstream::cli {

struct RunOptions {
  std::optional<std::string> policy;   // file, for the user's and the project's; nothing: as policy/layers.h says
  std::optional<std::string> summary;  // file for the JSON summary
  bool quiet = false;                  // no summary on standard error
  bool record = false;                 // leave a trace, whatever the policy says
  std::optional<std::string> out;      // the trace's directory, which is made; nothing: named by the time
  bool report = false;                 // print what the trace says, at the end
  std::vector<std::pair<std::string, std::string>> set;  // keys of the policy, and values as variables have them
  std::vector<std::string> command;                      // never empty
  std::string version{};                                 // of slipstream
};

// Why "KEY=VALUE" sets no key of a policy, in one line; empty: *setting is what it sets.
std::string ParseSetting(const std::string& text, std::pair<std::string, std::string>* setting);

// Does not return when the command could be started: this process is then the command (S68). Otherwise an exit code of
// exit_codes.h, with the reason on standard error.
int Run(const RunOptions& options);

// What a command under slipstream needs: the policy for it, and the library.
struct Preparation {
  int status = 0;  // kSuccess, else an exit code; then the reason has been said on standard error
  policy::Loaded loaded;
  std::string library;
};
Preparation PrepareRun(const std::optional<std::string>& policy, const policy::Environment& environment);

// Prints on standard error which settings of the policy have no effect.
void SayNotes(const policy::Loaded& loaded);

// Whether the policy has its processes count their calls, or leave traces, in the directory of the run.
bool WantsCounters(const policy::Policy& policy);
bool WantsTrace(const policy::Policy& policy);

// What the kernel does about huge pages, where the policy has PyTorch ask for them; else empty.
std::string HugePagesFor(const policy::Policy& policy);

// Whether it has PyTorch keep its tensors in expandable segments.
bool WantsExpandableSegments(const policy::Policy& policy);

// The variables of a command under slipstream: those of this process, LD_PRELOAD with the library in front of what
// stands there already (S52), and what the policy's [environment] adds where the user has set nothing.
struct PreloadEnvironment {
  std::vector<std::string> variables;  // NAME=value
  std::string error;                   // why it cannot be done; empty: it can
  bool policy_is_fixed = false;        // whatever becomes of its files; false: it is too long for a variable
  ExpandableSegments expandable;       // where they were asked for
};
struct PreloadRequest {
  std::vector<std::pair<std::string, std::string>> inherited{};
  std::vector<std::pair<std::string, std::string>> additions{};  // of the policy
  bool expandable_segments = false;
  std::string huge_pages_here{};  // what the kernel does about them; empty: PyTorch is not to ask for any
  std::string library{};
  std::optional<std::string> policy_list{};  // for SLIPSTREAM_POLICY (policy::PolicyListFor); nothing: as it is
  std::string run_policy{};                  // for SLIPSTREAM_RUN_POLICY (policy::RunPolicyFor); empty: it is not set
  std::string run_directory{};               // empty: none
  std::string run_root{};                    // for SLIPSTREAM_RUN_ROOT (policy/run_variable.h); empty: there is no root
  bool tool_of_nvtx = false;    // the library is to get the command's own NVTX calls, unless another tool does
  policy::Children children{};  // which programs that the command starts keep the library
};
PreloadEnvironment MakePreloadEnvironment(const PreloadRequest& request);

// `made` in the order of `before`. Unchanged entries stay as they were, variables or not, and however often; new ones
// come last. Both have entries as the kernel passes them on; `made` has each name once.
std::vector<std::string> AsBefore(const std::vector<std::string>& before, const std::vector<std::string>& made);

// Those that the policy asks for.
PreloadEnvironment EnvironmentOf(const Preparation& preparation, const policy::Environment& environment,
                                 const std::string& run_directory, const std::string& run_root = {});

}  // namespace slipstream::cli
