// transfer/: which copies are promoted to pinned, asynchronous ones. In this version none: every copy is the program's
// own call, and this folder holds the decision and its reason, which the summary and `slipstream doctor` show.
//
// Uses policy/ and the CUDA headers; knows nothing of allocator/, tracer/ or shim/.
// Threading: pure functions.
#pragma once

#include <string>

#include "policy/policy.h"

namespace slipstream::transfer {

// Whether the engine serves this process, and why (not).
struct Standing {
  bool serves = false;
  std::string why;
};

Standing StandingOf(const policy::Transfer& policy);

}  // namespace slipstream::transfer
