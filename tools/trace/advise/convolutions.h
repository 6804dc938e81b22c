// Whether a program has searched for algorithms of its convolutions, as torch.backends.cudnn.benchmark does: kernels of
// several names run at a line at first, and never again.
//
// Threading, errors: as the reader.
#pragma once

#include <cstddef>
#include <string_view>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {

struct Convolutions {
  bool begin_recorded = false;  // kernels from before the measured time are in the trace, with the process's first ones
  // Of the line where they are most: names of kernels that ran before the measured time and not within it.
  size_t tried = 0;
};

// By the names of NVIDIA's libraries and of CUTLASS.
bool IsConvolution(std::string_view kernel);

Convolutions ReadConvolutions(trace_db::DatabaseReader* reader, const report::ProcessReport& process);

}  // namespace slipstream::advise
