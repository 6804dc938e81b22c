// A recorded run as the commands that read one take it: the directory of the run, one spool file of it, or a database
// that was made of it before (`slipstream export --sqlite`, or Nsight Systems' export).
//
// Of spool files a database is made first. It stays in the run's directory, where nobody but this user can write, and
// is used again while the spools stand (trace/db/kept_database.h). Where it cannot stay (the directory is read-only,
// full, in memory or others'; the run goes on; RUN is one spool file) it is made in a directory of its own, whose name
// is gone before this returns: nothing is left behind, whatever becomes of the process. That is in TMPDIR (else /tmp),
// or where the database has no room there or it is memory, in /var/tmp (trace/db/build_place.h).
//
// Threading: one thread.
// Errors: said on standard error, with what to do; the caller has the exit status.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/exit_codes.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/trace_db.h"

namespace slipstream::cli {

struct TraceInputOptions {
  bool keep = true;      // use the database in the run's directory, and leave one there
  bool rebuild = false;  // use none that is there
  bool verbose = false;  // say on standard error where the database is
};

struct TraceRequest {
  std::string command;  // its name as the user wrote it ("report")
  std::string run;
  std::string version;
  std::vector<std::string> more = {};  // parts of the run that lie elsewhere, directories or spool files
  TraceInputOptions options = {};
};

struct TraceInput {
  int status = kFailed;                                // kSuccess: there is a database
  std::unique_ptr<trace_db::DatabaseReader> database;  // stops when EndingSignals says so
  bool was_database = false;                           // what was named is one; else `built` says what was read
  bool reused = false;                                 // it was there before, in the run's directory
  trace_db::BuildResult built;                         // `reused`: as KeptDatabase has it
  bool partial() const { return !was_database && built.partial(); }
  // The database that was used again cannot be read to its end: AskTrace makes a new one.
  bool IsToBeRebuilt() const;
};

// A file that begins as every SQLite database does.
bool IsDatabase(const std::string& path);

// An EndingSignals must live.
TraceInput OpenTrace(const TraceRequest& request);

// The same, and `ask` puts the questions to it. It is called once more, with a new database, where the one that was
// used again cannot be read to its end: then nothing of what it was told before may be used. It is not called where
// there is no database.
TraceInput AskTrace(TraceRequest request, const std::function<void(const TraceInput&)>& ask);

// What most commands do with a run: AskTrace, and where everything was read `answer`, whose exit status this returns.
// Else it has said why not, or ends the process as a signal asked (EndingSignals, which must not live).
int AnswerFromTrace(const TraceRequest& request, const std::function<void(const TraceInput&)>& ask,
                    const std::function<int(const TraceInput&)>& answer);

}  // namespace slipstream::cli
