// A recorded run as an SQLite database: the spool files of all its processes, in the table layout of Nsight Systems'
// export, with tables of slipstream's own beside it. docs/trace-database.md says what is in it; start reading here.
//
//   survey.h        a first look at every file: clocks, facts, the earliest time
//   time_base.h     one time for all processes and hosts
//   process_rows.h  the rows of a process, from its records
//   native_places.h names for native code, from the files that were mapped
//   gpu_rows.h      the devices of all processes
//   schema.h        the tables
//   database.h, table.h, new_file.h   the file, which gets its name when it is whole
//   kept_database.h   one that stays in the run's directory, to be used again
//   build_place.h     where there is room for one
//
// Files are read one after the other, so that a trace may be larger than memory.
//
// Threading: one build at a time in a process (database.h says why).
// Hazard: as database.h has it about SIGXFSZ.
// Errors: as values. Whatever went wrong, there is no half database under the name that was asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/trace/db/process_rows.h"
#include "tools/trace/db/time_base.h"

namespace slipstream::trace_db {

struct BuildProgress {
  enum class Phase : uint8_t { kReading, kWriting, kIndexing };
  Phase phase = Phase::kReading;
  uint64_t done_bytes = 0;  // of spool files, in this phase
  uint64_t total_bytes = 0;
  uint64_t records = 0;  // written
};

struct BuildOptions {
  std::string run;                     // directory with spool files, or one of them
  std::vector<std::string> more = {};  // parts of the same run that lie elsewhere, each likewise: of other ranks
  std::string database;                // where to
  bool replace = false;                // what is there
  // What goes away with the process: it need not be on the disk before it has its name.
  bool temporary = false;
  std::string product_version = {};
  std::string made_from = {};  // MadeFrom (kept_database.h), to be found in it; empty: nobody will ask
  std::string debug_directory = "/usr/lib/debug";  // debug files of the system's libraries; empty: none is looked for
  // Called with the whole database before it gets its name, to be read where it lies then; false: it gets none.
  std::function<bool(const std::string& path)> accept = {};
  const std::atomic<bool>* stop = nullptr;  // ends it when it becomes true; may be set by a signal handler
  std::function<void(const BuildProgress&)> progress = {};
};

enum class BuildProblem : uint8_t {
  kNone,
  kNoRun,            // there is no such directory or file, or it cannot be read
  kNoSpools,         // the directory holds none
  kNothingReadable,  // it holds some, and none can be read
  kExists,           // what is to be written is there
  kIsSpool,          // ... and is one of the files that are to be read
  kPlace,            // no file can be made there
  kNoRoom,           // the disk is full, or a limit was reached
  kWriting,          // any other failure to write
  kRefused,          // `accept` did not want it
  kStopped,
};

struct UnreadableSpool {
  std::string file;
  std::string why;
};

struct BuildResult {
  BuildProblem problem = BuildProblem::kNone;
  std::string what;  // about the problem; empty where its name says all
  std::vector<ExportedProcess> processes;
  std::vector<UnreadableSpool> unreadable;
  std::vector<Host> hosts;
  uint64_t start_unix_ns = 0;  // wall time of the trace's 0
  uint64_t database_bytes = 0;

  // The database is there, and something of the spools is not in it.
  bool partial() const;
};

// The spool files of a run, each once, in the order in which processes are numbered. `problem`: kNone, kNoRun or
// kNoSpools, with `what` as BuildResult has it.
struct FoundSpools {
  BuildProblem problem = BuildProblem::kNone;
  std::string what;
  std::vector<std::string> paths;
};
// `run`, `more`: as BuildOptions has them.
FoundSpools FindSpools(const std::string& run, const std::vector<std::string>& more);

BuildResult BuildTraceDatabase(const BuildOptions& options);

}  // namespace slipstream::trace_db
