// `slipstream summary`: prints the summary of a run again.
#pragma once

#include <string>

namespace slipstream::cli {

struct SummaryOptions {
  std::string run;    // the directory of its trace, or the number of its command; empty: the last one
  bool json = false;  // as `slipstream run --summary` writes it
};

// First ends the runs that are not ended because their root and their watcher were killed.
int Summary(const SummaryOptions& options);

}  // namespace slipstream::cli
