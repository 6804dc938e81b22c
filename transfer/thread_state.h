// What the engine remembers for each thread of the program: the copy that it has just promoted.
//
// Threading: a thread touches its own only. Trivial to construct and destroy: it lives in the static TLS block.
#pragma once

#include <cstdint>

#include "cuda/stream_ref.h"
#include "policy/transfer_plan.h"

namespace slipstream::transfer {

// The promoted copy that a synchronization of the same stream may follow immediately (S09).
struct Candidate {
  bool valid = false;
  bool destination_may_be_shared = false;
  bool small = false;         // at most kSmallCopyBytes
  policy::TransferPlan plan;  // what the policy makes of the copy
  cuda::StreamKey stream;
};

struct ThreadState {
  Candidate candidate;
  bool wants_fingerprints = false;
  uint64_t fingerprint = 0;  // of the copy that was promoted last; 0: it has none
};

}  // namespace slipstream::transfer
