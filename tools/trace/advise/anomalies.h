// What anomaly detection of PyTorch's adds to the host's time: behind each function of the backward pass, two kernels
// that look for a NaN, a copy of one byte and a wait for it; and the stack trace that each function of the forward pass
// takes. A trace shows the former. The latter is estimated: without it the host would take as long for a launch of the
// forward pass as it does for one of the backward pass between those questions.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/trace/db/database_reader.h"

namespace slipstream::advise {

struct Facts;

struct Anomalies {
  uint64_t questions = 0;  // of the measured steps; 0: none, and nothing below is known
  // Of the host's time in the calls of the backward pass that make no copies and wait for nothing, and right before
  // them: what stays without the questions. 0 to 1.
  double backward_stays = 1;
  // The lines of the forward pass, and what stays of the host's time in and before their calls without the stack
  // traces.
  std::vector<int64_t> forward_sites;
  double forward_stays = 1;
  int64_t backward_launch = 0;  // ns of the host for a launch of each pass, as estimated and as recorded
  int64_t forward_launch = 0;
};

// `facts`: with calls and backward_threads. Reads nothing where no thread of these fetches single bytes.
Anomalies ReadAnomalies(trace_db::DatabaseReader* reader, const Facts& facts);

}  // namespace slipstream::advise
