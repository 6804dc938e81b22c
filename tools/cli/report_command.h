// `slipstream report`: a recorded run on one screen, as JSON, or as a page.
//
// Threading: call from one thread. Writes to standard output, to standard error (problems, and progress where that is a
// terminal) and the page that it is asked for.
// Hazard: a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after what is half done has been
//   removed; meanwhile their handlers are its own.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/trace_input.h"

namespace slipstream::cli {

struct ReportCommandOptions {
  std::string run;                       // directory with spool files, one of them, or a database
  std::vector<std::string> more = {};    // parts of the run that lie elsewhere
  std::optional<std::string> html = {};  // file for the page
  bool force = false;                    // replace a file that is there
  bool full = false;                     // every figure, not the one screen of them
  bool json = false;
  TraceInputOptions input = {};
};

int Report(const ReportCommandOptions& options, const std::string& version);

}  // namespace slipstream::cli
