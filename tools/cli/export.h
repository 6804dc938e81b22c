// `slipstream export`: a recorded run in formats that other tools read.
//
// Threading: call from one thread. Writes to standard output (what there is now), to standard error (problems, and
// progress where that is a terminal) and the files that it is asked for.
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

// Whose errors are printed.
inline constexpr char kExportCommand[] = "export";

inline constexpr char kExportSchema[] = "slipstream-export-1";

// Any of the files, or `check`; none: list the formats.
struct ExportOptions {
  std::string run;  // directory with spool files, or one of them; but for --sqlite also a database of such
  std::vector<std::string> more = {};           // parts of the run that lie elsewhere
  std::optional<std::string> sqlite;            // for the database
  std::optional<std::string> chrome = {};       // for Chrome's JSON
  std::optional<std::string> perfetto = {};     // for a Perfetto trace
  std::optional<std::string> allocations = {};  // for what was allocated, to be replayed
  std::optional<int64_t> rank = {};             // only its processes; a database has all
  bool check = false;                           // make none: say what the run has, lacks and contradicts
  bool force = false;                           // replace a file that is there
  bool json = false;
  TraceInputOptions input = {};  // but for --sqlite, which makes its own database
};

// With `check`: 0 nothing is missing and nothing contradicts, 1 something is or does, 2 it cannot be read.
int Export(const ExportOptions& options, const std::string& version);

// The files that were asked for, and what became of each.
struct Exports {
  struct Trace {
    trace_export::ExportRequest request;
    trace_export::ExportOutcome outcome = {};
    bool tried = false;
    bool made() const { return tried && outcome.problem == trace_export::ExportProblem::kNone; }
  };

  std::optional<std::string> database;  // where to, if one was asked for
  bool database_made = false;
  std::vector<Trace> traces;    // the others
  trace_db::BuildResult built;  // what all were made of; nothing if that was a database already

  size_t files() const { return traces.size() + (database ? 1 : 0); }
  bool all_made() const;
  // It is made, and lacks what could not be read.
  bool partial(const Trace& trace) const;
  // One of the files is.
  bool partial() const;
};

// Makes all files that `options` name (at least one) of one reading of the run, and says what became of them. The exit
// status.
int MakeExports(const ExportOptions& options, const std::string& version);

// One screen about the files that are there.
std::string FormatExports(const Exports& exports);
// All of them as one JSON object, schema kExportSchema.
std::string ExportsJson(const Exports& exports);
// A line about the pauses of the recording (of a rank's processes); empty if there are none.
std::string FormatPauses(trace_db::DatabaseReader* database, const std::optional<int64_t>& rank);

}  // namespace slipstream::cli
