// Reads the events of the measured steps for a replay (replay.h).
//
// Threading, errors: as the reader.
#pragma once

#include <memory>

#include "tools/trace/advise/facts.h"
#include "tools/trace/advise/replay.h"
#include "tools/trace/db/database_reader.h"

namespace slipstream::advise {

// Of the facts' groups, which must be complete. Null: what the devices did is not in the trace, or no step can be
// replayed.
//
// Steps of more than one and a half times the median are left out, where there are few: they have a cause of their own
// (the rule `stalls`). So are the last ones of a run that has more than Replay::kMostEvents events.
std::shared_ptr<const Replay> ReadReplay(trace_db::DatabaseReader* reader, const Facts& facts);

// How the thread of a call may wait, by its function and what slipstream decided.
Replay::Waits WaitsOf(const CallGroup& group);

}  // namespace slipstream::advise
