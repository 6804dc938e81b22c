// `slipstream export`: a recorded run in a format that other tools read.
//
// Threading: call from one thread. Writes to standard output (what there is now), to standard error (problems, and
// progress where that is a terminal) and the file that it is asked for.
// Hazard: a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after what is half done has been
//   removed; while the export runs their handlers are its own.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/trace_input.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/trace_db.h"
#include "tools/trace/export/trace_export.h"

namespace slipstream::cli {

inline constexpr char kExportSchema[] = "slipstream-export-1";

// One of the files, or `check`; none: list the formats.
struct ExportOptions {
  std::string run;  // directory with spool files, or one of them; but for --sqlite also a database of such
  std::vector<std::string> more = {};           // parts of the run that lie elsewhere
  std::optional<std::string> sqlite;            // for the database
  std::optional<std::string> chrome = {};       // for Chrome's JSON
  std::optional<std::string> perfetto = {};     // for a Perfetto trace
  std::optional<std::string> allocations = {};  // for what was allocated, to be replayed
  std::optional<int64_t> rank = {};             // only its processes; not for a database
  bool check = false;                           // make none: say what the run has, lacks and contradicts
  bool force = false;                           // replace a file that is there
  bool json = false;
  TraceInputOptions input = {};  // but for --sqlite, which makes its own database
};

// With `check`: 0 nothing is missing and nothing contradicts, 1 something is or does, 2 it cannot be read.
int Export(const ExportOptions& options, const std::string& version);

// One screen about a database that is there.
std::string FormatExport(const ExportOptions& options, const trace_db::BuildResult& result);
// The same as one JSON object, schema kExportSchema.
std::string ExportJson(const ExportOptions& options, const trace_db::BuildResult& result);
// Why the traces of processes are incomplete, a line each; empty if they are complete.
std::string FormatGaps(const trace_db::BuildResult& result);
// A line about the pauses of the recording (of a rank's processes); empty if there are none.
std::string FormatPauses(trace_db::DatabaseReader* database, const std::optional<int64_t>& rank);

// The same about another file that is there. `built`: what the database was made of; nothing if it was there already.
std::string FormatTrace(const trace_export::ExportRequest& request, const trace_export::ExportOutcome& outcome,
                        const trace_db::BuildResult& built);
std::string TraceJson(const trace_export::ExportRequest& request, const trace_export::ExportOutcome& outcome,
                      const trace_db::BuildResult& built);

}  // namespace slipstream::cli
