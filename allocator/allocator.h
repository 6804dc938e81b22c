// allocator/: who serves device memory. Here is whether this process is served and why (not), which the summary and
// `slipstream doctor` show; the pool itself begins in segments.h.
//
// Uses policy/ and the CUDA headers; knows nothing of transfer/, tracer/ or shim/.
// Threading: pure functions.
#pragma once

#include <string>

#include "policy/policy.h"

namespace slipstream::allocator {

// Whether the engine serves this process, and why (not).
struct EngineStatus {
  bool serves = false;
  std::string why;
};

EngineStatus StatusOf(const policy::Allocator& policy);

}  // namespace slipstream::allocator
