// Lines of the program in two recorded runs. A line is found again by its file, function and number; where the file was
// edited between the runs, by what it does and by its place among the function's lines.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/compare/runs/runs.h"

namespace slipstream::compare {

// A line of a function that made calls.
struct LineShape {
  int64_t line = 0;
  unsigned kinds = 0;  // a bit for each of CallKind's copies, synchronizations and launches; others come and go
  double calls = 0;    // in a step
};

// Which lines of a function in the first run are which in the second, as indices of both, ascending. Both by their
// numbers. A line that has moved is one of the same kinds and with as many calls, and no two lines change their order;
// then, what is left over is matched where one line of each run is left that makes calls of some kinds.
std::vector<std::pair<size_t, size_t>> AlignLines(const std::vector<LineShape>& first,
                                                  const std::vector<LineShape>& second);

// The files of the second run that have another path in the first one: those that steps begin in, and those that are
// in one run only and alone in having their name there.
std::map<std::string, std::string> MovedFiles(const std::set<std::string>& first, const std::set<std::string>& second,
                                              const std::string& first_step_site, const std::string& second_step_site);

// By the largest of their changes. What no line is known of is a line of its own, for each kind of thread.
std::vector<LineChange> CompareLines(const RecordedRun& first, const RecordedRun& second);

}  // namespace slipstream::compare
