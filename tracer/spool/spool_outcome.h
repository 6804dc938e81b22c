// How a recording ended, from its spool file, without handing out the records. For a finished file only the last bytes
// are read, whatever its size; any other file is read through.
//
// Threading: pure functions; files are read.
// Errors: as texts for people.
#pragma once

#include <cstdint>
#include <string>

#include "tracer/spool/spool_format.h"

namespace slipstream::tracer {

struct SpoolOutcome {
  // Its process, as the file names it; 0 and empty: it does not, or it was finished and need not be read through.
  int64_t pid = 0;
  uint64_t started_ticks = 0;               // since boot
  std::string boot;                         // of the kernel that ran then
  std::string problem;                      // why it is no spool file that can be read; empty: it is one
  uint64_t bytes = 0;                       // that the file takes
  uint64_t records = 0;                     // in it, those of the writer's own among them
  uint64_t dropped = 0;                     // made and not in it, as far as is known
  bool has_calls = true;                    // false: not one call is in it
  bool complete = false;                    // its writer said how it ended; else the last moments are missing
  EndReason reason = EndReason::kFinished;  // if complete
  int error = 0;                            // an errno, with kError
  uint64_t later_calls = 0;                 // SpoolReader::End's
  bool later_calls_known = false;
  uint64_t given_up_records = 0;  // for newer ones, on purpose: neither in it nor dropped
  std::string left_why;           // bytes at its end cannot be read, and why; empty: none
  bool damaged = false;           // chunks are missing before its end, as far as it was read
};
SpoolOutcome OutcomeOf(const std::string& path);

}  // namespace slipstream::tracer
