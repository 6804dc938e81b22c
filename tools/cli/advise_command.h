// `slipstream advise`: what a recorded program could do differently, and what that would gain.
//
// Threading: call from one thread. Writes to standard output, and to standard error (problems, and progress where that
// is a terminal).
// Hazard: a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after what is half done has been
//   removed; meanwhile their handlers are its own.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/trace_input.h"
#include "tools/trace/report/html.h"
#include "tools/trace/report/report.h"

namespace slipstream::cli {

struct AdviseOptions {
  std::string run;                     // directory with spool files, one of them, or a database
  std::vector<std::string> more = {};  // parts of the run that lie elsewhere
  std::optional<int64_t> rank = {};    // the process of this rank; else all that make steps
  bool list = false;                   // the rules, and nothing else
  bool json = false;
  TraceInputOptions input = {};
};

// What it finds, for the page of a report of the same run; nothing where the database is not slipstream's. `command`:
// whose progress is shown. Check input.database->ok() afterwards.
std::vector<report::PageFinding> FindingsForPage(const char* command, const TraceInput& input,
                                                 const report::Report& report);

int Advise(const AdviseOptions& options, const std::string& version);

}  // namespace slipstream::cli
