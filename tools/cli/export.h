// `slipstream export`: a recorded run in a format that other tools read.
//
// Threading: call from one thread. Writes to standard output (what there is now), to standard error (problems, and
// progress where that is a terminal) and the file that it is asked for.
// Hazard: a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after what is half done has been
//   removed; while the export runs their handlers are its own.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <optional>
#include <string>

#include "tools/trace_db/trace_db.h"

namespace slipstream::cli {

inline constexpr char kExportSchema[] = "slipstream-export-1";

struct ExportOptions {
  std::string run;                    // directory with spool files, or one of them
  std::optional<std::string> sqlite;  // file for the database; nothing: list the formats
  bool force = false;                 // replace a file that is there
  bool json = false;
};

int Export(const ExportOptions& options, const std::string& version);

// One screen about a database that is there.
std::string FormatExport(const ExportOptions& options, const trace_db::BuildResult& result);
// The same as one JSON object, schema kExportSchema.
std::string ExportJson(const ExportOptions& options, const trace_db::BuildResult& result);

}  // namespace slipstream::cli
