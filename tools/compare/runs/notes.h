// What a reader has to know before he believes a comparison of two recorded runs: that they are not of the same
// program, machine or policy, that records are missing, and the like.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/compare/runs/runs.h"

namespace slipstream::compare {

// The unsound ones first.
std::vector<Note> NotesOn(const RecordedRun& first, const RecordedRun& second);

// The line that steps begin at, "train.py:8 (step)", without its number: that changes where lines are put in above.
struct StepSite {
  std::string file;
  std::string function;
};
StepSite SiteOf(const std::string& step_site);

}  // namespace slipstream::compare
