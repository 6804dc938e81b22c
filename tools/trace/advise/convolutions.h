// Whether a program has searched for algorithms of its convolutions, as torch.backends.cudnn.benchmark does: kernels of
// several names run at a line at first, and never again.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tools/trace/report/report.h"

namespace slipstream::advise {

struct Convolutions {
  bool begin_recorded = false;  // kernels from before the measured time are in the trace, with the process's first ones
  // Of the line where they are most: names of kernels that ran before the measured time and not within it.
  size_t tried = 0;
};

// By the names of NVIDIA's libraries and of CUTLASS.
bool IsConvolution(std::string_view kernel);

// Kernels of one name whose calls are at one line, of the whole run.
struct KernelsOfLine {
  std::string_view name;
  int64_t site = 0;
  int64_t first = 0;  // when they began
  int64_t last = 0;
};
// `kernels`: a name may have several of a line.
Convolutions FindConvolutions(const report::ProcessReport& process, std::span<const KernelsOfLine> kernels);

}  // namespace slipstream::advise
