#include "tools/cli/advise_command.h"

#include <algorithm>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/text.h"
#include "tools/trace/report/report.h"

namespace slipstream::cli {
namespace {

using policy::Escape;

constexpr char kCommand[] = "advise";

struct Made {
  int status = kFailed;
  bool stopped = false;
  bool again = false;  // with a new database
  std::string text;
};

// Its place in the report; nothing: no process has that rank.
std::optional<size_t> ProcessOf(const report::Report& report, std::optional<int64_t> rank) {
  if (!rank) return report.shown;
  const auto at = std::find_if(report.processes.begin(), report.processes.end(),
                               [&](const report::ProcessReport& process) { return process.rank == rank; });
  if (at == report.processes.end()) return std::nullopt;
  return static_cast<size_t>(at - report.processes.begin());
}

Made Make(const AdviseOptions& options, const std::string& version) {
  Made made;
  const EndingSignals signals;
  const TraceInput input = OpenTrace(kCommand, options.run, version, options.more, options.input);
  if (input.status != kSuccess) {
    made.stopped = input.built.problem == trace_db::BuildProblem::kStopped;
    made.status = input.status;
    return made;
  }
  report::Report report;
  {
    ProgressLine line(kCommand);
    report = report::MakeReport(input.database.get(), {.progress = line.Calls()});
  }
  const std::string run = Escape(options.run);
  const auto process = report.processes.empty() ? std::nullopt : ProcessOf(report, options.rank);
  std::optional<advise::Facts> facts;
  if (process && input.database->ok()) facts = advise::ReadFacts(input.database.get(), report, *process);
  made.again = input.IsToBeRebuilt();
  if (made.again) return made;
  if (input.database->stopped() || EndingSignals::stop()->load()) {
    made.stopped = true;
  } else if (!input.database->ok()) {
    Complain(kCommand, run + ": cannot be read to its end: " + Escape(input.database->error().text));
  } else if (!report.has_own_tables) {
    Complain(kCommand, run +
                           ": a database that slipstream did not make: no lines and no steps are in it\n  Name a run "
                           "that `slipstream run --record -- COMMAND` recorded.");
  } else if (!facts) {
    Complain(kCommand,
             run + (options.rank ? ": no process of rank " + std::to_string(*options.rank) : ": no process in it"));
  } else {
    const advise::Findings findings = advise::Advise(*facts);
    made.text = options.json ? FindingsJson(*facts, findings) : FormatFindings(*facts, findings);
    made.status = input.partial() ? kPartial : kSuccess;
  }
  return made;
}

}  // namespace

int Advise(const AdviseOptions& options, const std::string& version) {
  if (options.list) return Print(kCommand, options.json ? advise::RulesJson() : advise::FormatRules());
  Made made = Make(options, version);
  if (made.again) {
    AdviseOptions rebuilding = options;
    rebuilding.input.rebuild = true;
    made = Make(rebuilding, version);
  }
  if (made.stopped) return EndingSignals::EndStopped(kCommand);
  if (made.text.empty()) return made.status;
  const int printed = Print(kCommand, made.text);
  return printed != kSuccess ? printed : made.status;
}

}  // namespace slipstream::cli
