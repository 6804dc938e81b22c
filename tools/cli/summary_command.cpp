#include "tools/cli/summary_command.h"

#include <cstdio>
#include <optional>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/run_end.h"
#include "tools/cli/run_state.h"
#include "tools/cli/saved_summary.h"

namespace slipstream::cli {

int Summary(const SummaryOptions& options) {
  const policy::Environment environment = policy::Environment::FromProcess();
  EndAbandonedRuns(std::string(environment.Get("TMPDIR").value_or("")));
  if (!options.run.empty()) {  // a trace that is somewhere else
    const std::optional<RunState> state = ReadRunState(options.run);
    if (state && LookForRoot(*state) == RootIs::kGone) EndRun(options.run, {.now = false, .print = false});
  }
  const std::string place = SavedSummariesPlace(environment);
  const std::optional<SavedSummary> found = FindSavedSummary(place, options.run);
  if (!found) {
    std::fprintf(stderr, "slipstream: no summary %s%s in %s\n", options.run.empty() ? "of any run" : "of the run ",
                 policy::Escape(options.run).c_str(),
                 place.empty() ? "any place: neither XDG_STATE_HOME nor HOME is set" : policy::Escape(place).c_str());
    return kFailed;
  }
  std::fputs((options.json ? found->json : found->text).c_str(), stdout);
  return std::fflush(stdout) == 0 ? kSuccess : kFailed;
}

}  // namespace slipstream::cli
