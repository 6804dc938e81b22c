// A trace's database of a spool, and everything that is made of it: the report in all its forms, advice and exports.
// Once more of the database when it is damaged, as one that somebody else made.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/spool_input.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/text.h"
#include "tools/trace/db/trace_db.h"
#include "tools/trace/export/trace_export.h"
#include "tools/trace/report/html.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/report.h"
#include "tools/trace/report/text.h"

namespace slipstream::fuzz {
namespace {

// Every question was answered. They must be where nobody touched the database.
bool Answered(const trace_db::DatabaseReader& reader, bool whole) {
  Must(reader.ok() || !whole, reader.error().text.c_str());
  Must(reader.ok() || !reader.error().text.empty(), "it says what is wrong");
  return reader.ok();
}

void ReadAll(const std::string& database, bool partial, bool whole) {
  trace_db::DatabaseReader reader(database);
  if (!Answered(reader, whole)) return;
  const report::Report report = report::MakeReport(&reader, {.timeline = true});
  if (!Answered(reader, whole)) return;
  Must(!report::FormatReport(report).empty(), "there is a report");
  for (size_t process = 0; process < report.processes.size(); ++process) {
    const advise::Facts facts = advise::ReadFacts(&reader, report, process);
    if (!Answered(reader, whole)) return;
    Must(!advise::FormatFindings(facts, advise::Advise(facts)).empty(), "there is advice, or none to give");
  }
  Must(!report::ReportJson(report, partial).empty(), "there is one in JSON");
  Must(!report::ReportHtml(report, "js").empty(), "there is a page");
  using trace_export::ExportProblem;
  using trace_export::Format;
  for (const Format format : {Format::kChrome, Format::kPerfetto, Format::kAllocations}) {
    const trace_export::ExportOutcome exported = trace_export::ExportTrace(
        reader, {.format = format, .run = database, .file = Directory() + "/exported", .replace = true});
    if (!Answered(reader, whole)) return;
    const bool has_none = format == Format::kAllocations &&
                          (exported.problem == ExportProblem::kNoBlocks || exported.problem == ExportProblem::kSeveral);
    Must(exported.problem == ExportProblem::kNone || has_none || !whole, exported.what.c_str());
  }
}

}  // namespace

std::vector<std::string> Seeds() { return SpoolSeeds(); }

void OneInput(std::string_view given) {
  static const std::string run = [] {
    std::filesystem::create_directory(Directory() + "/run");
    return Directory() + "/run";
  }();
  FileOf(Repaired(given), "run/a.spool");
  const std::string database = Directory() + "/trace.sqlite";
  const trace_db::BuildResult built =
      trace_db::BuildTraceDatabase({.run = run, .database = database, .replace = true, .debug_directory = ""});
  if (built.problem != trace_db::BuildProblem::kNone) {
    Must(built.problem == trace_db::BuildProblem::kNothingReadable, "a spool is read or is none");
    Must(!built.unreadable.empty(), "it says which file it could not read");
    return;
  }
  ReadAll(database, built.partial(), /*whole=*/true);
  const std::vector<std::string> bytes = {BytesOf(database)};
  ReadAll(FileOf(Mutator(bytes, std::hash<std::string_view>{}(given)).Next(), "damaged.sqlite"), built.partial(),
          /*whole=*/false);
}

}  // namespace slipstream::fuzz
