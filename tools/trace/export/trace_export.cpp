#include "tools/trace/export/trace_export.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "tools/trace/export/allocation_trace.h"
#include "tools/trace/export/chrome_trace.h"
#include "tools/trace/export/export_file.h"
#include "tools/trace/export/perfetto_trace.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_export {
namespace {

ExportOutcome Fail(ExportProblem problem, const std::string& what = "") {
  ExportOutcome outcome;
  outcome.problem = problem;
  outcome.what = what;
  return outcome;
}

bool IsSame(const struct stat& a, const std::string& path) {
  struct stat b {};
  return stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

ExportOutcome FailWriting(int error) {
  const bool is_room = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Fail(is_room ? ExportProblem::kNoRoom : ExportProblem::kWriting, std::strerror(error));
}

std::unique_ptr<RowSink> SinkOf(Format format, ExportFile* file, TraceTexts* texts) {
  if (format == Format::kPerfetto) return std::make_unique<PerfettoTrace>(file, texts);
  return std::make_unique<ChromeTrace>(file, texts);
}

ExportOutcome FailReading(const trace_db::DatabaseReader& database) {
  return Fail(database.stopped() ? ExportProblem::kStopped : ExportProblem::kUnreadable, database.error().text);
}

// The processes that are to be in the file.
ExportOutcome FindProcesses(trace_db::DatabaseReader& database, const ExportRequest& request, TraceRows* rows,
                            TraceFacts* facts) {
  const auto fail_with_ranks = [&](ExportProblem problem) {
    ExportOutcome outcome = Fail(problem);
    outcome.ranks = rows->Ranks();
    return outcome;
  };
  const bool ours = rows->IsOurs();
  if (!database.ok()) return FailReading(database);
  if (!ours) return Fail(ExportProblem::kNotOurs);
  *facts = rows->Facts(request.rank);
  if (!database.ok()) return FailReading(database);
  if (facts->processes.empty()) {
    return fail_with_ranks(request.rank ? ExportProblem::kNoRank : ExportProblem::kNoProcess);
  }
  if (request.format != Format::kAllocations) return {};
  const std::vector<size_t> with_blocks = ProcessesWithAllocations(database, *facts);
  if (!database.ok()) return FailReading(database);
  if (with_blocks.size() != 1) {
    return fail_with_ranks(with_blocks.empty() ? ExportProblem::kNoBlocks : ExportProblem::kSeveral);
  }
  TraceProcess only = std::move(facts->processes[with_blocks.front()]);
  facts->processes.clear();
  facts->processes.push_back(std::move(only));
  return {};
}

}  // namespace

const char* NameOf(Format format) {
  switch (format) {
    case Format::kChrome:
      return "chrome";
    case Format::kPerfetto:
      return "perfetto";
    case Format::kAllocations:
      return "allocations";
  }
  return "";
}

ExportOutcome CheckPlace(const ExportRequest& request) {
  struct stat place {};
  if (lstat(request.file.c_str(), &place) != 0) return {};
  // A link to what is to be read would be replaced, not followed; nobody who names one wants that.
  struct stat behind {};
  if (stat(request.file.c_str(), &behind) == 0) {
    std::vector<std::string> parts = request.more;
    parts.push_back(request.run);
    for (const std::string& part : parts) {
      if (IsSame(behind, part)) {
        return Fail(S_ISDIR(behind.st_mode) ? ExportProblem::kPlace : ExportProblem::kIsInput, std::strerror(EISDIR));
      }
      std::string ignored;
      for (const std::string& spool : tracer::ListSpools(part, &ignored)) {
        if (IsSame(behind, spool)) return Fail(ExportProblem::kIsInput);
      }
    }
    // A name that is taken by something else is never replaced: a device would be gone for everybody.
    if (!S_ISREG(behind.st_mode)) {
      return Fail(ExportProblem::kPlace,
                  S_ISDIR(behind.st_mode) ? std::strerror(EISDIR) : "There is something that is no file");
    }
  }
  return request.replace ? ExportOutcome{} : Fail(ExportProblem::kExists);
}

ExportOutcome CheckRows(trace_db::DatabaseReader& database, const ExportRequest& request) {
  TraceRows rows(database);
  TraceFacts facts;
  return FindProcesses(database, request, &rows, &facts);
}

ExportOutcome ExportTrace(trace_db::DatabaseReader& database, const ExportRequest& request) {
  if (ExportOutcome place = CheckPlace(request); place.problem != ExportProblem::kNone) return place;
  TraceRows rows(database);
  TraceFacts facts;
  if (ExportOutcome found = FindProcesses(database, request, &rows, &facts); found.problem != ExportProblem::kNone) {
    return found;
  }

  ExportFile file(request.file);
  if (const int error = file.Create(); error != 0) return Fail(ExportProblem::kPlace, std::strerror(error));
  bool stopped = false;
  const auto progress = [&](uint64_t done, uint64_t total) {
    stopped = request.progress && !request.progress(done, total);
    return !stopped && file.error() == 0;
  };
  ExportOutcome outcome;
  if (request.format == Format::kAllocations) {
    outcome.rows = WriteAllocations(database, facts.processes.front(), &file, progress);
  } else {
    outcome.rows = rows.Visit(facts, SinkOf(request.format, &file, &rows.texts()).get(), progress);
  }
  if (!database.ok()) return FailReading(database);
  if (stopped) return Fail(ExportProblem::kStopped);
  if (file.error() != 0) return FailWriting(file.error());
  if (const int error = file.Publish(request.replace); error != 0) {
    return error == EEXIST && !request.replace ? Fail(ExportProblem::kExists) : FailWriting(error);
  }
  outcome.bytes = file.bytes();
  for (const TraceProcess& process : facts.processes) {
    outcome.processes.push_back({.pid = process.pid,
                                 .shown_pid = process.shown_pid,
                                 .rank = process.rank,
                                 .name = process.name,
                                 .host = process.host});
  }
  return outcome;
}

}  // namespace slipstream::trace_export
