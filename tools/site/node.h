// The runs of this node as they stand: the counter files of their processes, read as `slipstream top` reads them, so a
// program pays nothing. Processes of a run that have ended are still in its counters.
//
// Files and folders of users other than the run's own and root are refused, links to files are not followed, and pipes
// are not read.
//
// Threading: no state.
// Errors: what cannot be read is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/trace/top/find_run.h"
#include "tools/trace/top/proc_files.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::site {

struct NodeProcess {
  tracer::ProcessCounts counts;
  bool alive = false;
};

struct NodeRun {
  top::RunHere facts{};
  std::string user{};
  std::string program{};                 // base name of the first process's program, as far as the system says it
  std::string state{};                   // the text of the run's state file; empty: it has none, or not for us
  std::vector<NodeProcess> processes{};  // that made an intercepted call
};

struct NodeLeft {
  uint64_t uncounted = 0;         // processes under slipstream that keep no counters
  uint64_t unreadable_runs = 0;   // directories of runs that could not be read
  uint64_t unreadable_files = 0;  // counter files of the others
};

// `take` gets one run after the other: memory is that of one. `for_everybody`: this user is root.
NodeLeft ReadNode(const top::ProcFiles& processes, bool for_everybody, const char* state_name,
                  const std::function<void(const NodeRun& run)>& take);

}  // namespace slipstream::site
