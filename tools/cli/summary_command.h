// `slipstream summary`: what a run did, once more.
#pragma once

#include <string>

namespace slipstream::cli {

struct SummaryOptions {
  std::string run;    // the directory of its trace, or the number of its command; empty: the last one
  bool json = false;  // as `slipstream run --summary` writes it
};

// Runs that nobody has ended, because their root and their watcher were killed, are ended first.
int Summary(const SummaryOptions& options);

}  // namespace slipstream::cli
