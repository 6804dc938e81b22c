#include "tools/cli/export.h"

#include <cstdio>
#include <utility>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"
#include "tools/text/text.h"
#include "tools/trace/check/check.h"
#include "tools/trace/check/counter_check.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::WithThousands;
using trace_db::BuildProblem;
using trace_db::BuildProgress;
using trace_db::BuildResult;
using trace_export::ExportOutcome;
using trace_export::ExportProblem;
using trace_export::ExportRequest;
using trace_export::Format;

constexpr char kCommand[] = "export";
constexpr char kFormats[] =
    "slipstream export: no format. There are:\n"
    "  --sqlite FILE        an SQLite database in the table layout of Nsight Systems' export (docs/trace-database.md)\n"
    "  --chrome FILE        Chrome's JSON as the PyTorch profiler writes it (docs/exports.md)\n"
    "  --perfetto FILE      a trace for the Perfetto UI and its trace processor (docs/exports.md)\n"
    "  --allocations FILE   what was allocated and freed, to be replayed through any allocator (docs/exports.md)\n"
    "Or no file: --check says what the run has, what is missing from it, and what contradicts (docs/trace.md)\n";

std::string RanksText(const std::vector<int64_t>& ranks) {
  if (ranks.empty()) return "Its processes have no ranks";
  constexpr size_t kShown = 16;
  std::string text = "There is: " + std::to_string(ranks[0]);
  for (size_t i = 1; i < ranks.size() && i < kShown; ++i) text += ", " + std::to_string(ranks[i]);
  return ranks.size() > kShown ? text + ", ..." : text;
}

// What happened, where, and what to do about it.
void ComplainAboutTrace(const ExportRequest& request, const ExportOutcome& outcome) {
  const std::string run = Escape(request.run);
  const std::string file = Escape(request.file);
  switch (outcome.problem) {
    case ExportProblem::kNone:
    case ExportProblem::kStopped:
      break;
    case ExportProblem::kNotOurs:
      Complain(kCommand, run +
                             ": a database that slipstream did not make\n  Name a recorded run, or what `slipstream "
                             "export RUN --sqlite FILE` made of one.");
      break;
    case ExportProblem::kNoProcess:
      Complain(kCommand, run + ": no process in it");
      break;
    case ExportProblem::kNoRank:
      Complain(kCommand, run + ": no process of rank " + std::to_string(request.rank.value_or(0)) + "\n  " +
                             RanksText(outcome.ranks) + ".");
      break;
    case ExportProblem::kSeveral:
      Complain(kCommand,
               run + ": several processes in it allocated memory, and the format has room for one\n  Name one " +
                   (outcome.ranks.empty() ? std::string("by the spool file of it, as RUN.")
                                          : "with --rank. " + RanksText(outcome.ranks) + "."));
      break;
    case ExportProblem::kNoBlocks:
      Complain(kCommand,
               run + ": no allocation in it\n  Record a run that allocates memory of a device, from its start on.");
      break;
    case ExportProblem::kUnreadable:
      Complain(kCommand, run + ": cannot be read: " + Escape(outcome.what));
      break;
    case ExportProblem::kExists:
      Complain(kCommand, file + ": exists; --force replaces it");
      break;
    case ExportProblem::kIsInput:
      Complain(kCommand, file + ": is what is to be read, and would be lost. Name another file.");
      break;
    case ExportProblem::kPlace:
      Complain(kCommand, file + ": cannot be made: " + outcome.what +
                             "\n  Name a file in a directory that is there and can be written.");
      break;
    case ExportProblem::kNoRoom:
      Complain(kCommand, file + ": no room: " + outcome.what + Escape(RoomFor(request.file)) +
                             "\n  Nothing is left of it. Make room, name a file in another place, or one that ends in "
                             ".gz, which is compressed.");
      break;
    case ExportProblem::kWriting:
      Complain(kCommand, file + ": cannot be written: " + outcome.what + "\n  Nothing is left of it.");
      break;
  }
}

ExportRequest RequestOf(const ExportOptions& options) {
  const Format format = options.chrome ? Format::kChrome : options.perfetto ? Format::kPerfetto : Format::kAllocations;
  return {.format = format,
          .run = options.run,
          .more = options.more,
          .file = options.chrome     ? *options.chrome
                  : options.perfetto ? *options.perfetto
                                     : *options.allocations,
          .replace = options.force,
          .rank = options.rank};
}

int Stopped(const std::string& file) {
  return EndingSignals::EndStopped(kCommand, "stopped; nothing is left of " + Escape(file));
}

// Where the records of a process are fewer or more than it counted: behind the text, or where scripts do not read.
// The text has a line about pauses of the recording, too.
std::string Warnings(trace_db::DatabaseReader* reader, const ExportOptions& options) {
  std::string warnings = reader->ok() ? trace_check::FormatCounterWarnings(reader) : "";
  if (!reader->ok()) return "";
  if (!options.json) {
    const std::string pauses = FormatPauses(reader, options.rank);
    return reader->ok() ? pauses + warnings : "";
  }
  std::fputs(warnings.c_str(), stderr);
  return "";
}

int CheckRun(const ExportOptions& options, const std::string& version) {
  trace_check::Check check;
  bool stopped = false;
  {
    const EndingSignals signals;
    // From the files themselves, whatever database lies beside them.
    const TraceInput input = OpenTrace(kCommand, options.run, version, options.more, {.keep = false});
    stopped = EndingSignals::stop()->load();
    if (input.status != kSuccess && !stopped) return kUsage;
    if (!stopped) {
      check = trace_check::CheckTrace(input.database.get());
      stopped = input.database->stopped() || EndingSignals::stop()->load();
    }
    if (!stopped && !input.database->ok()) {
      Complain(kCommand, Escape(options.run) + ": cannot be checked: " + Escape(input.database->error().text));
      return kUsage;
    }
    for (const auto& spool : input.built.unreadable) check.unreadable.push_back(spool.why);
  }
  if (stopped) return EndingSignals::EndStopped(kCommand);
  const int printed = Print(kCommand, options.json ? trace_check::CheckJson(check) : trace_check::FormatCheck(check));
  return printed != kSuccess ? printed : check.whole() ? kSuccess : kFailed;
}

// A file that is made of a database, which may have to be made first.
int ExportFile(const ExportOptions& options, const std::string& version) {
  ExportRequest request = RequestOf(options);
  ExportOutcome outcome = trace_export::CheckPlace(request);
  trace_db::BuildResult built;
  std::string warnings;
  bool stopped = false;
  bool again = false;  // with a new database
  if (outcome.problem == ExportProblem::kNone) {
    const EndingSignals signals;
    const std::atomic<bool>* const stop = EndingSignals::stop();
    TraceInput input = OpenTrace(kCommand, options.run, version, options.more, options.input);
    stopped = stop->load();
    if (input.status != kSuccess && !stopped) return input.status;
    built = std::move(input.built);
    if (!stopped) {
      ProgressLine line(kCommand);
      request.progress = [&](uint64_t done, uint64_t total) {
        line.Show("writing " + std::to_string(total == 0 ? 100 : done * 100 / total) + " % of " + WithThousands(total) +
                  " rows");
        return !stop->load();
      };
      outcome = trace_export::ExportTrace(*input.database, request);
      if (outcome.problem == ExportProblem::kNone) warnings = Warnings(input.database.get(), options);
      stopped = outcome.problem == ExportProblem::kStopped;
      again = outcome.problem == ExportProblem::kUnreadable && input.IsToBeRebuilt();
    }
  }
  if (again) {
    ExportOptions rebuilding = options;
    rebuilding.input.rebuild = true;
    return ExportFile(rebuilding, version);
  }
  if (stopped) return Stopped(request.file);
  if (outcome.problem != ExportProblem::kNone) {
    ComplainAboutTrace(request, outcome);
    return kFailed;
  }
  const int printed = Print(
      kCommand, options.json ? TraceJson(request, outcome, built) : FormatTrace(request, outcome, built) + warnings);
  if (printed != kSuccess) return printed;
  return built.partial() || outcome.rows.strays != 0 ? kPartial : kSuccess;
}

}  // namespace

int Export(const ExportOptions& options, const std::string& version) {
  const int formats =
      (options.sqlite ? 1 : 0) + (options.chrome ? 1 : 0) + (options.perfetto ? 1 : 0) + (options.allocations ? 1 : 0);
  if (options.check && formats == 0 && !options.rank) return CheckRun(options, version);
  if (options.check) {
    Complain(kCommand, "--check makes no file, and looks at all ranks: name no format beside it, and no --rank");
    return kUsage;
  }
  if (formats == 0) {
    std::fputs(kFormats, stderr);
    return kUsage;
  }
  if (formats > 1) {
    Complain(
        kCommand,
        "one format at a time\n  Of what --sqlite made, the others are made without reading the run again: name it "
        "as RUN.");
    return kUsage;
  }
  if (options.rank && options.sqlite) {
    Complain(kCommand, "--rank is for --chrome and --perfetto and --allocations; a database has all processes");
    return kUsage;
  }
  if (!options.sqlite) return ExportFile(options, version);
  BuildResult result;
  trace_db::BuildOptions build = {.run = options.run,
                                  .more = options.more,
                                  .database = *options.sqlite,
                                  .replace = options.force,
                                  .product_version = version,
                                  .stop = EndingSignals::stop()};
  {
    const EndingSignals signals;
    ProgressLine line(kCommand);
    build.progress = [&](const BuildProgress& progress) { line.Show(progress); };
    result = trace_db::BuildTraceDatabase(build);
  }
  if (result.problem == BuildProblem::kStopped) return Stopped(*options.sqlite);
  if (result.problem != BuildProblem::kNone) {
    ComplainAbout(kCommand, build, result);
    return kFailed;
  }
  trace_db::DatabaseReader reader(*options.sqlite);
  const std::string warnings = Warnings(&reader, options);
  const int printed =
      Print(kCommand, options.json ? ExportJson(options, result) : FormatExport(options, result) + warnings);
  return printed != kSuccess ? printed : result.partial() ? kPartial : kSuccess;
}

}  // namespace slipstream::cli
