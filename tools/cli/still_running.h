// Which processes of a run go on when it ends: a daemon that the command has left behind, say.
//
// Threading: pure functions of what is in /proc.
#pragma once

#include <cstdint>

#include "tracer/counters/counter_reader.h"
#include "tracer/spool/spool_outcome.h"

namespace slipstream::cli {

// Whether the process that recorded the file runs still: one of the same number that began at the same moment of the
// same boot.
bool StillRuns(const tracer::SpoolOutcome& file);

// The same of one that has counted: one of its number and name, in this namespace of numbers, that began before it made
// its first call. (A number that was given anew is that of a process that began later.)
bool StillRuns(const tracer::ProcessCounts& process);

}  // namespace slipstream::cli
