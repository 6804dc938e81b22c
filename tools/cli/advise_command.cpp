#include "tools/cli/advise_command.h"

#include <optional>
#include <string>
#include <vector>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/screen.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/page.h"
#include "tools/trace/advise/ranks.h"
#include "tools/trace/advise/text.h"
#include "tools/trace/report/report.h"

namespace slipstream::cli {
namespace {

using policy::Escape;

constexpr char kAdviseCommand[] = "advise";

std::string OfOne(const AdviseOptions& options, const TraceInput& input, const report::Report& report, size_t process) {
  const advise::Facts facts = advise::ReadFacts(input.database.get(), report, process);
  const advise::Findings findings = advise::Advise(facts);
  return options.json ? FindingsJson(facts, findings, input.partial()) : FormatFindings(facts, findings, OutputPage());
}

// The facts of one rank after another: there may be many. Nothing: the database could not be read to its end.
std::optional<advise::RanksFindings> FindOfRanks(const char* command, const TraceInput& input,
                                                 const report::Report& report, const std::vector<size_t>& ranks) {
  ProgressLine line(command);
  advise::RanksAdvice advice(report);
  for (size_t i = 0; i < ranks.size(); ++i) {
    line.Show("process " + std::to_string(i + 1) + " of " + std::to_string(ranks.size()), i, ranks.size());
    const advise::Facts facts = advise::ReadFacts(input.database.get(), report, ranks[i]);
    if (!input.database->ok()) return std::nullopt;
    advice.Add(facts, advise::Advise(facts));
  }
  return advice.Finish();
}

std::string OfRanks(const AdviseOptions& options, const TraceInput& input, const report::Report& report,
                    const std::vector<size_t>& ranks) {
  const std::optional<advise::RanksFindings> findings = FindOfRanks(kAdviseCommand, input, report, ranks);
  if (!findings) return "";
  return options.json ? RanksJson(report, *findings, input.partial()) : FormatRanks(report, *findings, OutputPage());
}

}  // namespace

std::vector<report::PageFinding> FindingsForPage(const char* command, const TraceInput& input,
                                                 const report::Report& report) {
  const std::optional<size_t> process = report::ProcessOf(report, std::nullopt);
  if (!process || !report.has_own_tables || !input.database->ok()) return {};
  if (const std::vector<size_t> ranks = advise::RanksOf(report); ranks.size() > 1) {
    const std::optional<advise::RanksFindings> findings = FindOfRanks(command, input, report, ranks);
    return findings ? advise::FindingsOfPage(report, *findings) : std::vector<report::PageFinding>();
  }
  const advise::Facts facts = advise::ReadFacts(input.database.get(), report, *process);
  return advise::FindingsOfPage(facts, advise::Advise(facts));
}

int Advise(const AdviseOptions& options, const std::string& version) {
  if (options.list)
    return Print(kAdviseCommand, options.json ? advise::RulesJson() : advise::FormatRules(ScreenColumns()));
  report::Report report;
  std::optional<size_t> process;
  std::string text;
  const auto ask = [&](const TraceInput& input) {
    {
      ProgressLine line(kAdviseCommand);
      report = report::MakeReport(input.database.get(), {.progress = line.Calls()});
    }
    process = report::ProcessOf(report, options.rank);
    if (!process || !report.has_own_tables || !input.database->ok()) return;
    const std::vector<size_t> ranks = advise::RanksOf(report);
    text = !options.rank && ranks.size() > 1 ? OfRanks(options, input, report, ranks)
                                             : OfOne(options, input, report, *process);
  };
  const auto answer = [&](const TraceInput& input) -> int {
    const std::string run = Escape(options.run);
    if (!report.has_own_tables) {
      Complain(kAdviseCommand,
               run +
                   ": a database that slipstream did not make: no lines and no steps are in it\n  Name a run "
                   "that `slipstream run --record -- COMMAND` recorded.");
      return kFailed;
    }
    if (!process) {
      Complain(kAdviseCommand,
               run + (options.rank ? ": no process of rank " + std::to_string(*options.rank) : ": no process in it"));
      return kFailed;
    }
    return input.partial() ? kPartial : kSuccess;
  };
  const int status = AnswerFromTrace({kAdviseCommand, options.run, version, options.more, options.input}, ask, answer);
  if (status == kFailed) return status;
  const int printed = Print(kAdviseCommand, text);
  return printed != kSuccess ? printed : status;
}

}  // namespace slipstream::cli
