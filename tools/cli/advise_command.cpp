#include "tools/cli/advise_command.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/screen.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/ranks.h"
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
  if (report.processes.empty()) return std::nullopt;
  if (!rank) return report.shown;
  const auto at = std::find_if(report.processes.begin(), report.processes.end(),
                               [&](const report::ProcessReport& process) { return process.rank == rank; });
  if (at == report.processes.end()) return std::nullopt;
  return static_cast<size_t>(at - report.processes.begin());
}

advise::Page PageOfTheScreen() {
  return {.columns = ScreenColumns(), .color = OutputTakesColor(policy::Environment::FromProcess())};
}

std::string OfOne(const AdviseOptions& options, trace_db::DatabaseReader* database, const report::Report& report,
                  size_t process) {
  const advise::Facts facts = advise::ReadFacts(database, report, process);
  const advise::Findings findings = advise::Advise(facts);
  return options.json ? FindingsJson(facts, findings) : FormatFindings(facts, findings, PageOfTheScreen());
}

// The facts of one rank after another: there may be many.
std::string OfRanks(const AdviseOptions& options, trace_db::DatabaseReader* database, const report::Report& report,
                    const std::vector<size_t>& ranks) {
  ProgressLine line(kCommand);
  advise::RanksAdvice advice(report);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t process = ranks[i];
    line.Show("process " + std::to_string(i + 1) + " of " + std::to_string(ranks.size()), i, ranks.size());
    const advise::Facts facts = advise::ReadFacts(database, report, process);
    if (!database->ok()) return "";
    advice.Add(facts, advise::Advise(facts));
  }
  const advise::RanksFindings findings = advice.Finish();
  return options.json ? RanksJson(report, findings) : FormatRanks(report, findings, PageOfTheScreen());
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
  const std::optional<size_t> process = ProcessOf(report, options.rank);
  std::string text;
  if (process && report.has_own_tables && input.database->ok()) {
    const std::vector<size_t> ranks = advise::RanksOf(report);
    text = !options.rank && ranks.size() > 1 ? OfRanks(options, input.database.get(), report, ranks)
                                             : OfOne(options, input.database.get(), report, *process);
  }
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
  } else if (!process) {
    Complain(kCommand,
             run + (options.rank ? ": no process of rank " + std::to_string(*options.rank) : ": no process in it"));
  } else {
    made.text = std::move(text);
    made.status = input.partial() ? kPartial : kSuccess;
  }
  return made;
}

}  // namespace

int Advise(const AdviseOptions& options, const std::string& version) {
  if (options.list) return Print(kCommand, options.json ? advise::RulesJson() : advise::FormatRules(ScreenColumns()));
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
