// How much a decision of an engine says about the call that it was made in (tracer/calls/call_recorder.h): a copy may
// be promoted, have its wait skipped and an older one made up for, and its record in a trace has room for one of them.
//
// Threading: pure functions.
#pragma once

#include "allocator/decision.h"
#include "tracer/calls/call_recorder.h"
#include "transfer/decision.h"

namespace slipstream::shim {

constexpr tracer::CallShare ShareOf(transfer::Decision decision) {
  constexpr tracer::CallShare kShares[] = {
#define SLIPSTREAM_ROW(enumerator, name, share, ...) tracer::CallShare::share,
      SLIPSTREAM_TRANSFER_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
  };
  return kShares[static_cast<size_t>(decision)];
}

constexpr tracer::CallShare ShareOf(allocator::Decision decision) {
  constexpr tracer::CallShare kShares[] = {
#define SLIPSTREAM_ROW(enumerator, name, share, ...) tracer::CallShare::share,
      SLIPSTREAM_ALLOCATOR_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
  };
  return kShares[static_cast<size_t>(decision)];
}

}  // namespace slipstream::shim
