// How much a decision of an engine says about the call that it was made in (tracer/call_recorder.h): a copy may be
// promoted, have its wait skipped and an older one paid, and its record in a trace has room for one of them.
//
// Threading: pure functions.
#pragma once

#include "allocator/decision.h"
#include "tracer/call_recorder.h"
#include "transfer/decision.h"

namespace slipstream::shim {

constexpr tracer::CallShare ShareOf(transfer::Decision decision) {
  using transfer::Decision;
  switch (decision) {
    case Decision::kAhead:
    case Decision::kVerified:
    case Decision::kVerifiedWrong:
    case Decision::kUnverified:
    case Decision::kGaveBack:
    case Decision::kUnpinned:
    case Decision::kUnmapped:
    case Decision::kUnmappedByCaller:
    // Paid in calls that wait by themselves: their own wait is so much shorter.
    case Decision::kPaidSynchronize:
    case Decision::kPaidCopy:
    case Decision::kPaidFree:
    case Decision::kPaidReset:
    case Decision::kPaidBound:
    case Decision::kPaidThreadExit:
      return tracer::CallShare::kBeside;
    // In calls that do not.
    case Decision::kPaidShare:
    case Decision::kPaidCapture:
    case Decision::kPaidProfiler:
    case Decision::kPaidQuery:
      return tracer::CallShare::kWaited;
    case Decision::kSkipped:
    case Decision::kSkippedRest:
    case Decision::kKeptOff:
    case Decision::kKeptRule:
    case Decision::kKeptHostEffect:
    case Decision::kKeptCapture:
    case Decision::kKeptContexts:
    case Decision::kKeptMapped:
    case Decision::kKeptShared:
    case Decision::kKeptRdma:
    case Decision::kKeptError:
      return tracer::CallShare::kSynchronize;
    default:
      return tracer::CallShare::kOutcome;
  }
}

constexpr tracer::CallShare ShareOf(allocator::Decision decision) {
  using allocator::Decision;
  switch (decision) {
    case Decision::kReserved:
    case Decision::kTrimmed:
    case Decision::kReclaimed:
    case Decision::kRetried:
      return tracer::CallShare::kBeside;
    default:
      return tracer::CallShare::kOutcome;
  }
}

}  // namespace slipstream::shim
