// The calls of a process as rows.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <limits>

#include "tools/trace/db/database_reader.h"

namespace slipstream::run {

struct Call {
  int64_t start = 0;
  int64_t end = 0;
  int64_t function = 0;  // Names::TextOf
  int64_t decision = 0;  // likewise; 0: none was taken
  int64_t site = 0;      // Names::LineOf
  int64_t thread = 0;    // of SLIPSTREAM_THREADS
  int64_t bytes = 0;
  int64_t stream = 0;  // the handle
  int64_t correlation = 0;
  // The line is not where the thread itself was: it asked for the backward pass that the call is part of.
  bool site_is_backward = false;
};

// In the order of their starts, of those that begin at once the longest first:
// for (Calls calls(reader, process); calls.Next();) calls.now().start;
class Calls {
 public:
  // Whether the database has what is asked for: Nsight Systems' has not.
  static bool AreIn(trace_db::DatabaseReader* reader);

  // Those that begin from `first` on and before `end`.
  Calls(trace_db::DatabaseReader* reader, int64_t process, int64_t first = std::numeric_limits<int64_t>::min(),
        int64_t end = std::numeric_limits<int64_t>::max());

  bool Next();
  const Call& now() const { return now_; }

 private:
  trace_db::Question row_;
  Call now_;
};

}  // namespace slipstream::run
