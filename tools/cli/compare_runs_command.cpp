#include "tools/cli/compare_runs_command.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <optional>

#include "policy/text.h"
#include "tools/cli/compare_command.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"
#include "tools/cli/trace_input.h"
#include "tools/compare/runs/runs.h"
#include "tools/compare/runs/text.h"
#include "tools/trace/db/trace_db.h"
#include "tools/trace/report/report.h"

namespace slipstream::cli {
namespace {

using compare::RecordedRun;
using policy::Escape;

// Whether it could be read as one: a database, a spool file, a directory with some.
bool IsRun(const std::string& word) {
  if (IsDatabase(word)) return true;
  const trace_db::FoundSpools found = trace_db::FindSpools(word, {});
  // A file that is named is taken as it is, whatever it holds.
  return found.problem == trace_db::BuildProblem::kNone &&
         (found.paths.size() != 1 || found.paths[0] != word || word.ends_with(".spool"));
}

// The exit status: kSuccess, or there is none and that was said.
int ReadRun(const CompareRunsOptions& options, const std::string& name, const std::string& version, RecordedRun* run) {
  std::optional<size_t> process;
  const auto ask = [&](const TraceInput& input) {
    run->name = name;
    run->partial = input.partial();
    {
      ProgressLine line(kCompareCommand);
      run->report = report::MakeReport(input.database.get(), {.all_kernels = true, .progress = line.Calls()});
    }
    process = report::ProcessOf(run->report, options.rank);
    if (!process) return;
    run->process = *process;
    run->facts = compare::ReadFacts(input.database.get(), run->of().process);
  };
  const auto answer = [&](const TraceInput&) -> int {
    if (process) return kSuccess;
    Complain(
        kCompareCommand,
        Escape(name) + (run->report.processes.empty()
                            ? ": holds no CUDA calls and no kernels\n  Name a run that `slipstream run --record -- "
                              "COMMAND` recorded, or its database."
                            : ": no process of rank " + std::to_string(options.rank.value_or(0))));
    return kFailed;
  };
  return AnswerFromTrace({kCompareCommand, name, version, {}, {.verbose = options.verbose}}, ask, answer);
}

bool LacksCalls(const RecordedRun& run) { return run.partial || run.of().drops_everywhere; }

// Why there are no two recorded runs to compare; empty: there are.
std::string WhyNoTwoRuns(const CompareRunsOptions& options) {
  const std::vector<std::string>& runs = options.runs;
  const std::string what_for = runs.empty() ? "" : "what is \"" + Escape(runs[0]) + "\" for";
  if (options.has_command)
    return runs.empty() ? std::string(options.rank ? "--rank" : "--floor") + " is for two recorded runs."
                        : what_for + ", beside a command?";
  if (std::none_of(runs.begin(), runs.end(), IsRun)) return what_for + "? It is no recorded run.";
  if (runs.size() == 1) return "one recorded run; two are compared.";
  if (runs.size() > 2) return "more than two recorded runs.";
  if (options.others.empty()) return "";
  return options.others[0] + " is for runs of a command; two recorded runs are compared as they are.";
}

int Compare(const CompareRunsOptions& options, const std::string& version) {
  std::array<RecordedRun, 2> runs;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (ReadRun(options, options.runs[i], version, &runs[i]) != kSuccess) return kFailed;
  }
  compare::RunsComparison comparison =
      compare::CompareRecorded(runs[0], runs[1], options.floor.value_or(compare::kFloor));
  comparison.fail_if_slower = options.fail_if_slower;
  const bool whole = comparison.step && comparison.step->has_interval && !LacksCalls(runs[0]) && !LacksCalls(runs[1]);
  const bool slower = whole && options.fail_if_slower &&
                      WhetherSlower(*comparison.step, *options.fail_if_slower) == compare::Slower::kShown;
  const int status = !whole ? kPartial : slower ? kSlower : kSuccess;
  const int printed = Print(kCompareCommand, options.json ? compare::RunsComparisonJson(comparison, status)
                                                          : compare::FormatRunsComparison(comparison));
  return printed != kSuccess ? printed : status;
}

}  // namespace

std::optional<int> CompareRuns(const CompareRunsOptions& options, const std::string& version) {
  if (options.has_command && options.runs.empty() && !options.rank && !options.floor) return std::nullopt;
  if (!options.has_command && options.runs.empty()) {
    std::fputs(
        "slipstream: no command. Write:  slipstream compare [options] -- COMMAND...\n"
        "  or, of two recorded runs:     slipstream compare RUN RUN\n",
        stderr);
    return kUsage;
  }
  if (const std::string why = WhyNoTwoRuns(options); !why.empty()) {
    Complain(kCompareCommand, why + "\n  Write:  slipstream compare -- COMMAND...  or  slipstream compare RUN RUN");
    return kUsage;
  }
  return Compare(options, version);
}

}  // namespace slipstream::cli
