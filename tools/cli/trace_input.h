// A recorded run as the commands that read one take it: the directory of the run, one spool file of it, or a database
// that was made of it before (`slipstream export --sqlite`, or Nsight Systems' export).
//
// Of spool files a database is made first, in a directory of its own (TMPDIR, else /tmp), whose name is gone before
// this returns: nothing is left behind, whatever becomes of the process. It takes up to twice the room of the spools.
//
// Threading: one thread.
// Errors: said on standard error, with what to do; the caller has the exit status.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/cli/exit_codes.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/trace_db.h"

namespace slipstream::cli {

struct TraceInput {
  int status = kFailed;                                // kSuccess: there is a database
  std::unique_ptr<trace_db::DatabaseReader> database;  // stops when EndingSignals says so
  bool was_database = false;                           // what was named is one; else `built` says what was read
  trace_db::BuildResult built;
  bool partial() const { return !was_database && built.partial(); }
};

// `command` is its name as the user wrote it ("report"). An EndingSignals must live.
// `more`: parts of the run that lie elsewhere, directories or spool files.
TraceInput OpenTrace(const std::string& command, const std::string& run, const std::string& version,
                     const std::vector<std::string>& more = {});

}  // namespace slipstream::cli
