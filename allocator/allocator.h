// allocator/: who serves device and pinned memory. In this version nobody but the driver: every call passes through,
// and this folder holds the decision and its reason, which the summary and `slipstream doctor` show.
//
// Uses policy/ and the CUDA headers; knows nothing of transfer/, tracer/ or shim/.
// Threading: pure functions.
#pragma once

#include <string>

#include "policy/policy.h"

namespace slipstream::allocator {

// Whether the engine serves this process, and why (not).
struct Standing {
  bool serves = false;
  std::string why;
};

Standing StandingOf(const policy::Allocator& policy);

}  // namespace slipstream::allocator
