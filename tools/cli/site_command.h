// `slipstream site`: what the runs of a site gained, failed at and stood aside in, of the summaries that they left.
//
// Threading: call from one thread.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <optional>
#include <string>

#include "tools/site/totals.h"

namespace slipstream::cli {

struct SiteOptions {
  std::string directory{};          // empty: that of run.summaries
  std::optional<double> since_s{};  // of runs that ended since then; nothing: all
  std::string since{};              // the same as it was asked for
  std::optional<site::By> by{};     // nothing: all tables
  bool json = false;
};

int Site(const SiteOptions& options);

}  // namespace slipstream::cli
