#include "tools/cli/compare_runs_command.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <optional>

#include "policy/text.h"
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

constexpr char kCommand[] = "compare";

// Whether it could be read as one: a database, a spool file, a directory with some.
bool IsRun(const std::string& word) {
  if (IsDatabase(word)) return true;
  const trace_db::FoundSpools found = trace_db::FindSpools(word, {});
  // A file that is named is taken as it is, whatever it holds.
  return found.problem == trace_db::BuildProblem::kNone &&
         (found.paths.size() != 1 || found.paths[0] != word || word.ends_with(".spool"));
}

struct Read {
  int status = kFailed;
  bool stopped = false;
  bool again = false;  // with a new database
  RecordedRun run;
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

Read ReadOnce(const CompareRunsOptions& options, const std::string& name, const std::string& version, bool rebuild) {
  Read read;
  read.run.name = name;
  const EndingSignals signals;
  const TraceInput input = OpenTrace(kCommand, name, version, {}, {.rebuild = rebuild, .verbose = options.verbose});
  if (input.status != kSuccess) {
    read.stopped = input.built.problem == trace_db::BuildProblem::kStopped;
    return read;
  }
  read.run.partial = input.partial();
  {
    ProgressLine line(kCommand);
    read.run.report = report::MakeReport(input.database.get(), {.all_kernels = true, .progress = line.Calls()});
  }
  const std::optional<size_t> process = ProcessOf(read.run.report, options.rank);
  if (process) {
    read.run.process = *process;
    read.run.facts = compare::ReadFacts(input.database.get(), read.run.of().process);
  }
  read.again = input.IsToBeRebuilt();
  if (read.again) return read;
  if (input.database->stopped() || EndingSignals::stop()->load()) {
    read.stopped = true;
  } else if (!input.database->ok()) {
    Complain(kCommand, Escape(name) + ": cannot be read to its end: " + Escape(input.database->error().text));
  } else if (read.run.report.processes.empty()) {
    Complain(kCommand, Escape(name) +
                           ": holds no CUDA calls and no kernels\n  Name a run that `slipstream run --record -- "
                           "COMMAND` recorded, or its database.");
  } else if (!process) {
    Complain(kCommand, Escape(name) + ": no process of rank " + std::to_string(options.rank.value_or(0)));
  } else {
    read.status = kSuccess;
  }
  return read;
}

Read ReadRun(const CompareRunsOptions& options, const std::string& name, const std::string& version) {
  Read read = ReadOnce(options, name, version, false);
  return read.again ? ReadOnce(options, name, version, true) : read;
}

bool LacksCalls(const RecordedRun& run) { return run.partial || run.of().drops_everywhere; }

// Why there are no two recorded runs to compare; empty: there are.
std::string WhyNoTwoRuns(const CompareRunsOptions& options) {
  const std::vector<std::string>& runs = options.runs;
  const std::string what_for = runs.empty() ? "" : "what is \"" + Escape(runs[0]) + "\" for";
  if (options.has_command) return runs.empty() ? "--rank is for two recorded runs." : what_for + ", beside a command?";
  if (std::none_of(runs.begin(), runs.end(), IsRun)) return what_for + "? It is no recorded run.";
  if (runs.size() == 1) return "one recorded run; two are compared.";
  if (runs.size() > 2) return "more than two recorded runs.";
  if (options.others.empty()) return "";
  return options.others[0] + " is for runs of a command; two recorded runs are compared as they are.";
}

int Compare(const CompareRunsOptions& options, const std::string& version) {
  std::array<Read, 2> reads;
  for (size_t i = 0; i < reads.size(); ++i) {
    reads[i] = ReadRun(options, options.runs[i], version);
    if (reads[i].stopped) return EndingSignals::EndStopped(kCommand);
    if (reads[i].status != kSuccess) return kFailed;
  }
  const compare::RunsComparison comparison = compare::CompareRecorded(reads[0].run, reads[1].run);
  const bool whole =
      comparison.step && comparison.step->has_interval && !LacksCalls(reads[0].run) && !LacksCalls(reads[1].run);
  const int status = whole ? kSuccess : kPartial;
  const int printed = Print(kCommand, options.json ? compare::RunsComparisonJson(comparison, status)
                                                   : compare::FormatRunsComparison(comparison));
  return printed != kSuccess ? printed : status;
}

}  // namespace

std::optional<int> CompareRuns(const CompareRunsOptions& options, const std::string& version) {
  if (options.has_command && options.runs.empty() && !options.rank) return std::nullopt;
  if (!options.has_command && options.runs.empty()) {
    std::fputs(
        "slipstream: no command. Write:  slipstream compare [options] -- COMMAND...\n"
        "  or, of two recorded runs:     slipstream compare RUN RUN\n",
        stderr);
    return kUsage;
  }
  if (const std::string why = WhyNoTwoRuns(options); !why.empty()) {
    Complain(kCommand, why + "\n  Write:  slipstream compare -- COMMAND...  or  slipstream compare RUN RUN");
    return kUsage;
  }
  return Compare(options, version);
}

}  // namespace slipstream::cli
