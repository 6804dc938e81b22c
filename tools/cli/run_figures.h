// Reads the figures of a run whose time was taken (measured_run.h).
//
// Threading: call from one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/cli/measured_run.h"

namespace slipstream::cli {

// The steps of one run.
struct StepFigures {
  size_t measured = 0;
  size_t all = 0;
  double seconds = 0;  // of one (compare/blocks.h)
  // The same of its work: with what the host waited for the device after the steps, about (report/backlog.h). 0: not
  // known.
  double work_seconds = 0;
  bool ran_ahead = false;  // by so much that `seconds` is not what a step takes
  std::string line;        // where one begins
  std::string problem;     // empty: there are steps
};

// Of the trace in the run's directory. `command`: whose complaints they are.
StepFigures ReadSteps(const char* command, const std::string& directory, const std::string& version);

// The last lines of what the command printed, standard error behind standard output: twelve at most.
std::vector<std::string> LastLines(const MeasuredRun& run);

// "40 s", "12 min", "3 h 5 min"
std::string About(double seconds);

}  // namespace slipstream::cli
