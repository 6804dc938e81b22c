// A trace's database as one file that other tools open: Chrome's JSON in the PyTorch profiler's dialect, or Perfetto's
// own format. docs/exports.md says what is in them; start reading here.
//
//   trace_rows.h, trace_texts.h   what is in the database, row by row
//   chrome_trace.h, json_line.h              Chrome's JSON
//   perfetto_trace.h, perfetto_fields.h, lanes.h   Perfetto's packets
//   allocation_trace.h                       allocations, to be replayed
//   export_file.h                            the file, which gets its name when it is whole
//
// Only names of the trace are held in memory: the trace may be larger.
//
// Threading: one thread.
// Hazard: as export_file.h has it about SIGXFSZ.
// Errors: as values. Whatever went wrong, there is no half file under the name that was asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/export/trace_rows.h"

namespace slipstream::trace_export {

enum class Format : uint8_t { kChrome, kPerfetto, kAllocations };

// What the command calls it: "chrome", "perfetto", "allocations".
const char* NameOf(Format format);

struct ExportRequest {
  Format format = Format::kChrome;
  std::string run;                     // what the database was made of, or the database: never written to
  std::vector<std::string> more = {};  // other parts of that run, likewise
  std::string file;                    // where to; compressed where it ends in ".gz"
  bool replace = false;
  std::optional<int64_t> rank = {};  // only its processes
  // Rows that were read, and how many there are; false ends it.
  std::function<bool(uint64_t, uint64_t)> progress = {};
};

enum class ExportProblem : uint8_t {
  kNone,
  kNotOurs,     // a database, and not of slipstream's
  kNoProcess,   // nothing in it
  kNoRank,      // no process has the rank that was asked for
  kSeveral,     // processes, of which the format has room for one
  kNoBlocks,    // no allocation is in the trace
  kUnreadable,  // the database
  kExists,
  kIsInput,  // what is to be written is (a part of) what is to be read
  kPlace,    // no file can be made there
  kNoRoom,   // the disk is full, or a limit was reached
  kWriting,  // any other failure to write
  kStopped,
};

// A process that is in the file.
struct ExportedTrace {
  int64_t pid = 0;
  int64_t shown_pid = 0;  // what the file calls it
  std::optional<int64_t> rank;
  std::string name;
  std::string host;
};

struct ExportOutcome {
  ExportProblem problem = ExportProblem::kNone;
  std::string what;            // about the problem; empty where its name says all
  std::vector<int64_t> ranks;  // of kNoRank and kSeveral: that there are
  RowCounts rows;
  std::vector<ExportedTrace> processes;
  uint64_t bytes = 0;
};

// Checks before the work whether there can be such a file. `problem` kNone, kExists, kIsInput or kPlace.
ExportOutcome CheckPlace(const ExportRequest& request);

// Checks whether the database has what the request needs, without a file. `problem` kNone, kNotOurs, kNoProcess,
// kNoRank, kSeveral, kNoBlocks, kUnreadable or kStopped.
ExportOutcome CheckRows(trace_db::DatabaseReader& database, const ExportRequest& request);

// One database may be exported several times.
ExportOutcome ExportTrace(trace_db::DatabaseReader& database, const ExportRequest& request);

}  // namespace slipstream::trace_export
