// What the slow steps of a process (ProcessReport::slow_steps) did otherwise than the median one: their calls by
// function, and their kernels by name.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {

struct SlowStepFacts {
  report::SlowStep step;
  // Whose calls took longer by most, of all threads; empty: none did.
  std::string function;
  int64_t function_grew = 0;  // ns
  uint64_t loads = 0;         // calls that load code, more than in the median step
  // Its kernels against those of the same names in the median step; 0: too few have the same names and numbers.
  double kernels_factor = 0;
  bool all_kernels = false;  // they took longer by one factor, and not some of them by another
  int64_t kernels_grew = 0;  // ns, all of them
};

// In their order.
std::vector<SlowStepFacts> ReadSlowSteps(trace_db::DatabaseReader* reader, const report::ProcessReport& process);

}  // namespace slipstream::advise
