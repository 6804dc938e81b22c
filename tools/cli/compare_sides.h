// The two sides of `slipstream compare`: what each sets in the environment of the command.
//
// Threading: pure functions, but for MakeSides, which reads policies.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/environment.h"
#include "tools/cli/run.h"
#include "tools/cli/run_directory.h"
#include "tools/compare/comparison.h"

namespace slipstream::cli {

inline constexpr char kBareDetail[] = "the command itself, with nothing of slipstream in it";

struct CompareSide {
  bool bare = false;                    // the command as it is without slipstream
  std::optional<std::string> policy{};  // file; nothing: the policy in force
  Preparation prepared{};               // of a bare side too: what its steps are recorded by
};

// False, with the exit status in *status, if a side cannot be made; the reason has then been printed on standard error.
// Fills what `comparison` says of its sides.
// `both_under`: no side is bare, though fewer than two policies are named.
bool MakeSides(const std::vector<std::string>& policies, bool both_under, const policy::Environment& environment,
               std::array<CompareSide, 2>* sides, compare::Comparison* comparison, int* status);

// The variables of a command that knows nothing of slipstream: without those named SLIPSTREAM_..., and without its
// library in LD_PRELOAD and NVTX_INJECTION64_PATH, wherever that library lies.
std::vector<std::pair<std::string, std::string>> BareVariables(const policy::Environment& environment);

// What a run of a side gets. `run_directory`: for counters and traces; not for a bare side without `recorded`.
// `recorded`: with a trace of calls, which is what steps are found in; a bare side then has the library too, with every
// engine off. Else without a trace.
PreloadEnvironment VariablesOf(const CompareSide& side, const policy::Environment& environment, bool recorded,
                               const std::string& run_directory);

// The same, with a new directory where the run leaves its counters, as under `slipstream run`, or its trace. Empty: it
// cannot be run; why has then been printed, as `whose` complaint ("compare").
std::vector<std::string> PrepareSide(const char* whose, const CompareSide& side, const policy::Environment& environment,
                                     bool recorded, const std::string& tmpdir, RunDirectory* directory);

}  // namespace slipstream::cli
