// The record of a run for its site (tools/site/run_record.h), written when the run ends.
//
// Threading: where there is one thread.
#pragma once

#include <string>

#include "tools/cli/run_state.h"
#include "tools/cli/summary.h"
#include "tools/site/run_record.h"

namespace slipstream::cli {

// Of the run that this process's user has started on this host.
site::RunRecord RecordOf(const RunState& state, const RunSummary& summary);

// Writes it where the state says, in 2 s at most: a file server that does not answer delays no command. Why it is not
// there, for people; empty: it is, or none is asked for.
std::string WriteRunRecord(const RunState& state, const RunSummary& summary);

}  // namespace slipstream::cli
