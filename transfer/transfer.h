// transfer/: which copies are promoted to pinned, asynchronous ones, and which synchronizations the program does not
// need. Here is the decision for a whole process; engine.h is where a single call is decided.
//
// Uses policy/ and the CUDA headers; knows nothing of allocator/, tracer/ or shim/.
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "policy/policy.h"

namespace slipstream::transfer {

// Whether the engine serves this process, and why (not).
struct EngineStatus {
  bool serves = false;
  std::string why;
};

// `launch_blocking`: the value of CUDA_LAUNCH_BLOCKING, empty when it is not set (S14).
EngineStatus StatusOf(const policy::Transfer& policy, std::string_view launch_blocking);

}  // namespace slipstream::transfer
