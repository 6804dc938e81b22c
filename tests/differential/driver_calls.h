// The same operations by the driver's functions instead of the runtime's, by their linked names or as a program finds
// them by name (S70). What they mean is the same; what the runtime remembers as its last error is not theirs.
//
// Threading: any thread that has a context.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/differential/program.h"

namespace differential {

// What the runtime's call takes, whatever of it the operation uses.
struct Operands {
  void* dst = nullptr;
  const void* src = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaEvent_t end_event = nullptr;
  cudaGraphExec_t exec = nullptr;
  const void* kernel = nullptr;  // the host function, and its arguments
  void** arguments = nullptr;
  cudaHostFn_t function = nullptr;
  void* user_data = nullptr;
  void** made = nullptr;  // an allocation
};

// An operation of a kind that HasDriverCall, whose `door` says how. The driver's codes are the runtime's.
cudaError_t ByDriver(const Op& op, const Operands& with);

}  // namespace differential
