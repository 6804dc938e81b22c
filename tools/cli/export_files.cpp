// The files of one `slipstream export`. The run is read once: what --sqlite made is what the others are made of, and
// where it was not asked for (or could not be written), the database that stays with the run (trace_input.h).

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/export.h"
#include "tools/cli/trace_build.h"
#include "tools/text/text.h"
#include "tools/trace/check/counter_check.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::WithThousands;
using trace_db::BuildProblem;
using trace_db::BuildProgress;
using trace_db::BuildResult;
using trace_db::DatabaseReader;
using trace_export::ExportOutcome;
using trace_export::ExportProblem;
using trace_export::ExportRequest;
using trace_export::Format;

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
      Complain(kExportCommand,
               run +
                   ": a database that slipstream did not make\n  Name a recorded run, or what `slipstream "
                   "export RUN --sqlite FILE` made of one.");
      break;
    case ExportProblem::kNoProcess:
      Complain(kExportCommand, run + ": no process in it");
      break;
    case ExportProblem::kNoRank:
      Complain(kExportCommand, run + ": no process of rank " + std::to_string(request.rank.value_or(0)) + "\n  " +
                                   RanksText(outcome.ranks) + ".");
      break;
    case ExportProblem::kSeveral:
      Complain(kExportCommand,
               run + ": several processes in it allocated memory, and the format has room for one\n  Name one " +
                   (outcome.ranks.empty() ? std::string("by the spool file of it, as RUN.")
                                          : "with --rank. " + RanksText(outcome.ranks) + "."));
      break;
    case ExportProblem::kNoBlocks:
      Complain(kExportCommand,
               run + ": no allocation in it\n  Record a run that allocates memory of a device, from its start on.");
      break;
    case ExportProblem::kUnreadable:
      Complain(kExportCommand, run + ": cannot be read: " + Escape(outcome.what));
      break;
    case ExportProblem::kExists:
      Complain(kExportCommand, file + ": exists; --force replaces it");
      break;
    case ExportProblem::kIsInput:
      Complain(kExportCommand, file + ": is what is to be read, and would be lost. Name another file.");
      break;
    case ExportProblem::kPlace:
      Complain(kExportCommand, file + ": cannot be made: " + outcome.what +
                                   "\n  Name a file in a directory that is there and can be written.");
      break;
    case ExportProblem::kNoRoom:
      Complain(kExportCommand,
               file + ": no room: " + outcome.what + Escape(RoomFor(request.file)) +
                   "\n  Nothing is left of it. Make room, name a file in another place, or one that ends in "
                   ".gz, which is compressed.");
      break;
    case ExportProblem::kWriting:
      Complain(kExportCommand, file + ": cannot be written: " + outcome.what + "\n  Nothing is left of it.");
      break;
  }
}

Exports Asked(const ExportOptions& options) {
  Exports exports;
  exports.database = options.sqlite;
  const auto ask = [&](Format format, const std::optional<std::string>& file) {
    if (!file) return;
    exports.traces.push_back({.request = {.format = format,
                                          .run = options.run,
                                          .more = options.more,
                                          .file = *file,
                                          .replace = options.force,
                                          .rank = options.rank}});
  };
  ask(Format::kChrome, options.chrome);
  ask(Format::kPerfetto, options.perfetto);
  ask(Format::kAllocations, options.allocations);
  return exports;
}

// One name for a file that may not be there yet. A link in its own place would be replaced, not followed.
std::string OneName(const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(file, ignored);
  return (std::filesystem::weakly_canonical(path.parent_path(), ignored) / path.filename()).string();
}

// The command is wrong for this run, whatever else it names: then no file is made at all.
bool IsRefusal(ExportProblem problem) {
  return problem == ExportProblem::kNotOurs || problem == ExportProblem::kNoProcess ||
         problem == ExportProblem::kNoRank || problem == ExportProblem::kSeveral;
}

class Exporter {
 public:
  Exporter(const ExportOptions& options, const std::string& version)
      : options_(options), version_(version), exports_(Asked(options)) {}

  int Run() {
    if (const int status = CheckFiles(); status != kSuccess) return status;
    {
      const EndingSignals signals;
      if (exports_.database) MakeDatabase();
      if (!stopped_ && !end_ && !exports_.traces.empty()) MakeTraces();
    }
    if (stopped_) return Stopped();
    return end_ ? *end_ : Say();
  }

 private:
  bool several() const { return exports_.files() > 1; }

  int CheckFiles() const;
  void MakeDatabase();
  void MakeTraces();
  bool Accept(DatabaseReader* database);
  void AskFor(const TraceInput& input);
  void MakeMoreTraces(const TraceInput& input);
  void MakeTrace(DatabaseReader* database, Exports::Trace* trace);
  int Refuse() const;
  std::string Warnings(DatabaseReader* reader) const;
  int Stopped() const;
  int Say();

  const ExportOptions& options_;
  const std::string& version_;
  Exports exports_;
  size_t next_ = 0;  // of the traces: those before it are made, or cannot be
  std::string warnings_;
  Exports::Trace refused_;  // why Accept said no
  bool stopped_ = false;
  std::optional<int> end_;  // with nothing to say of any file
};

// Before the work: nobody waits for it in vain, and nothing is written by a command that is wrong. A place where no
// file can be made is that file's failure alone.
int Exporter::CheckFiles() const {
  std::vector<ExportRequest> requests;
  // A database alone has its place checked by its build.
  if (exports_.database && several()) {
    requests.push_back(
        {.run = options_.run, .more = options_.more, .file = *exports_.database, .replace = options_.force});
  }
  for (const Exports::Trace& trace : exports_.traces) requests.push_back(trace.request);
  std::set<std::string> names;
  for (const ExportRequest& request : requests) {
    if (names.insert(OneName(request.file)).second) continue;
    Complain(kExportCommand, Escape(request.file) + ": is named twice\n  Name a file of its own for each format.");
    return kUsage;
  }
  if (exports_.database && several() && IsDatabase(options_.run)) {
    Complain(kExportCommand, Escape(options_.run) +
                                 ": is a database already\n  Leave --sqlite away: the other formats are made of it.");
    return kUsage;
  }
  int status = kSuccess;
  for (const ExportRequest& request : requests) {
    const ExportOutcome place = trace_export::CheckPlace(request);
    if (place.problem == ExportProblem::kNone || (place.problem == ExportProblem::kPlace && several())) continue;
    ComplainAboutTrace(request, place);
    status = kFailed;
  }
  return status;
}

void Exporter::MakeDatabase() {
  trace_db::BuildOptions build = {.run = options_.run,
                                  .more = options_.more,
                                  .database = *exports_.database,
                                  .replace = options_.force,
                                  .product_version = version_,
                                  .stop = EndingSignals::stop()};
  if (!exports_.traces.empty()) {
    build.accept = [this](const std::string& path) {
      DatabaseReader database(path);
      database.StopWhen(EndingSignals::stop());
      return Accept(&database);
    };
  }
  BuildResult result;
  {
    ProgressLine line(kExportCommand);
    build.progress = [&](const BuildProgress& progress) { line.Show(progress); };
    result = trace_db::BuildTraceDatabase(build);
  }
  switch (result.problem) {
    case BuildProblem::kNone:
      exports_.database_made = true;
      exports_.built = std::move(result);
      return;
    case BuildProblem::kStopped:
      stopped_ = true;
      return;
    case BuildProblem::kRefused:
      end_ = Refuse();
      return;
    case BuildProblem::kNoRun:
    case BuildProblem::kNoSpools:
    case BuildProblem::kNothingReadable:
      end_ = kFailed;  // the others would say the same
      break;
    default:
      if (exports_.traces.empty()) end_ = kFailed;
      break;
  }
  ComplainAbout(kExportCommand, build, result);
}

// Whether the traces can be made of it as they were asked for; else `refused_` says why not.
bool Exporter::Accept(DatabaseReader* database) {
  // All are of the same rank, and the last one needs the most: allocations, where they were asked for.
  const ExportRequest& request = exports_.traces.back().request;
  ExportOutcome outcome = trace_export::CheckRows(*database, request);
  if (!IsRefusal(outcome.problem)) return true;
  refused_ = {.request = request, .outcome = std::move(outcome)};
  return false;
}

void Exporter::MakeTraces() {
  TraceInput input;
  if (exports_.database_made) {
    input.database = std::make_unique<DatabaseReader>(*exports_.database);
    input.database->StopWhen(EndingSignals::stop());
    MakeMoreTraces(input);  // accepted when it was made
  } else {
    input = AskTrace({kExportCommand, options_.run, version_, options_.more, options_.input},
                     [this](const TraceInput& opened) { AskFor(opened); });
    if (input.status != kSuccess) {
      stopped_ = EndingSignals::stop()->load();
      // Else files may be there already, which is to be said.
      if (next_ == 0) end_ = input.status;
      return;
    }
  }
  if (!stopped_ && !end_) warnings_ = Warnings(input.database.get());
}

void Exporter::AskFor(const TraceInput& input) {
  stopped_ = EndingSignals::stop()->load();
  if (stopped_) return;
  exports_.built = input.built;
  if (!several() || Accept(input.database.get())) {
    MakeMoreTraces(input);
    return;
  }
  if (input.IsToBeRebuilt()) return;
  const int refused = Refuse();
  if (next_ == 0) end_ = refused;
}

// Up to one that needs a new database.
void Exporter::MakeMoreTraces(const TraceInput& input) {
  for (; next_ < exports_.traces.size(); ++next_) {
    Exports::Trace& trace = exports_.traces[next_];
    MakeTrace(input.database.get(), &trace);
    if (trace.outcome.problem == ExportProblem::kUnreadable && input.IsToBeRebuilt()) return;
    if (trace.outcome.problem == ExportProblem::kStopped) {
      stopped_ = true;
      return;
    }
    ComplainAboutTrace(trace.request, trace.outcome);
  }
}

void Exporter::MakeTrace(DatabaseReader* database, Exports::Trace* trace) {
  const std::atomic<bool>* const stop = EndingSignals::stop();
  ProgressLine line(kExportCommand);
  ExportRequest request = trace->request;
  request.progress = [&](uint64_t done, uint64_t total) {
    line.Show(
        "writing " + std::to_string(total == 0 ? 100 : done * 100 / total) + " % of " + WithThousands(total) + " rows",
        done, total);
    return !stop->load();
  };
  trace->outcome = trace_export::ExportTrace(*database, request);
  trace->tried = true;
}

int Exporter::Refuse() const {
  ComplainAboutTrace(refused_.request, refused_.outcome);
  return kFailed;
}

// Where the records of a process are fewer or more than it counted: behind the text, or where scripts do not read.
// The text has a line about pauses of the recording, too.
std::string Exporter::Warnings(DatabaseReader* reader) const {
  if (!reader->ok()) return "";
  std::string warnings = trace_check::FormatCounterWarnings(reader);
  if (!reader->ok()) return "";
  if (!options_.json) {
    // A database has all ranks.
    const std::string pauses = FormatPauses(reader, exports_.database_made ? std::nullopt : options_.rank);
    return reader->ok() ? pauses + warnings : "";
  }
  std::fputs(warnings.c_str(), stderr);
  return "";
}

int Exporter::Stopped() const {
  std::string made;
  std::string left;
  const auto add = [&](bool is_made, const std::string& file) {
    std::string* const text = is_made ? &made : &left;
    *text += (text->empty() ? "" : ", ") + Escape(file);
  };
  if (exports_.database) add(exports_.database_made, *exports_.database);
  for (const Exports::Trace& trace : exports_.traces) add(trace.made(), trace.request.file);
  return EndingSignals::EndStopped(
      kExportCommand, "stopped; nothing is left of " + left + (made.empty() ? "" : "; whole and there: " + made));
}

int Exporter::Say() {
  if (!several() && !exports_.all_made()) return kFailed;
  if (exports_.traces.empty()) {
    DatabaseReader reader(*exports_.database);
    warnings_ = Warnings(&reader);
  }
  const int printed =
      Print(kExportCommand, options_.json ? ExportsJson(exports_) : FormatExports(exports_) + warnings_);
  if (printed != kSuccess) return printed;
  if (!exports_.all_made()) return kFailed;
  return exports_.partial() ? kPartial : kSuccess;
}

}  // namespace

bool Exports::all_made() const {
  return (!database || database_made) &&
         std::all_of(traces.begin(), traces.end(), [](const Trace& trace) { return trace.made(); });
}

bool Exports::partial(const Trace& trace) const {
  return trace.made() && (built.partial() || trace.outcome.rows.strays != 0);
}

bool Exports::partial() const {
  return (database_made && built.partial()) ||
         std::any_of(traces.begin(), traces.end(), [this](const Trace& trace) { return partial(trace); });
}

int MakeExports(const ExportOptions& options, const std::string& version) { return Exporter(options, version).Run(); }

}  // namespace slipstream::cli
