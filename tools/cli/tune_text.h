// What `slipstream tune` found, for people and for scripts (schema slipstream-tune-1, docs/tune.md).
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/journal.h"
#include "tools/tune/knobs.h"
#include "tools/tune/search.h"

namespace slipstream::cli {

struct TuneOutcome {
  const tune::Search& search;  // that is over
  const std::vector<std::string>& command;
  std::string ruler;  // what was compared
  const std::vector<tune::NotTried>& not_tried;
  const std::vector<std::string>& notes;
  const tune::Place& place;
  std::string out;      // the policy file
  std::string journal;  // from which the search can go on; empty: everything was tried
};

std::string JoinedWords(const std::vector<std::string>& words);

// 80 columns, but for what was refused and why.
std::string TuneText(const TuneOutcome& outcome);
std::string TuneJson(const TuneOutcome& outcome);

}  // namespace slipstream::cli
