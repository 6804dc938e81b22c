// What the allocator decided about an allocation or a free, by reason: the names that summaries and traces show.
//
// Threading: constants.
#pragma once

#include <cstddef>
#include <cstdint>

#include "policy/decision_text.h"

namespace slipstream::allocator {

// policy/decision_text.h says what a row has.
#define SLIPSTREAM_ALLOCATOR_DECISIONS(ROW)                                                                          \
  ROW(kReused, "reused", kOutcome, "allocations served with a block whose last work has run", "from the pool")       \
  ROW(kReusedBehind, "reused.behind", kOutcome,                                                                      \
      "allocations served with a block behind whose last work all later work waits", "behind a wait of the device")  \
  ROW(kGrown, "grown", kOutcome, "allocations that the driver served because no block fitted", "by the driver")      \
  ROW(kReserved, "reserved", kBeside, "idle blocks made in advance, when the program first used the device",         \
      "made in advance")                                                                                             \
  ROW(kPassedCapture, "passed.capture", kOutcome,                                                                    \
      "allocations left to the program's call: a stream is being captured", "during a stream capture")               \
  ROW(kPassedContext, "passed.context", kOutcome,                                                                    \
      "allocations left to the program's call: a context or a runtime that is not served",                           \
      "in a context of the program's own")                                                                           \
  ROW(kPassedDriver, "passed.driver", kOutcome,                                                                      \
      "allocations left to the program's call: the driver is older than CUDA 12.5",                                  \
      "because the driver is older than CUDA 12.5")                                                                  \
  ROW(kPassedMemory, "passed.memory", kOutcome,                                                                      \
      "allocations left to the program's call: the driver has no memory left", "with no memory left in the driver")  \
  ROW(kParked, "parked", kOutcome, "frees that waited for nothing and kept the block", "kept")                       \
  ROW(kFreedCapture, "freed.capture", kOutcome, "real frees: a stream is being captured", "during a stream capture") \
  ROW(kFreedShared, "freed.shared", kOutcome, "real frees: the block is shared with another process",                \
      "of memory shared with a process")                                                                             \
  ROW(kFreedHostEffect, "freed.host_effect", kOutcome, "real frees: what the host could see cannot be told",         \
      "while host memory could still be written unseen")                                                             \
  ROW(kFreedContext, "freed.context", kOutcome, "real frees: a context's work cannot be fenced",                     \
      "with a context whose work cannot be fenced")                                                                  \
  ROW(kFreedCap, "freed.cap", kOutcome, "real frees: enough idle memory is kept", "with enough idle memory kept")    \
  ROW(kFreedReserve, "freed.reserve", kOutcome, "real frees: the driver has little memory left",                     \
      "with little memory left in the driver")                                                                       \
  ROW(kFreedThread, "freed.thread", kOutcome, "real frees: no thread could be started to look after idle memory",    \
      "without a thread to look after idle memory")                                                                  \
  ROW(kFreedForeign, "freed.foreign", kOutcome, "real frees: memory that did not come from here",                    \
      "of memory that is not the pool's")                                                                            \
  ROW(kTrimmed, "trimmed", kBeside, "idle blocks given back to the driver because nobody wanted them",               \
      "that nobody wanted")                                                                                          \
  ROW(kReclaimed, "reclaimed", kBeside, "idle blocks given back to the driver because it had no memory left",        \
      "when the driver had none left")                                                                               \
  ROW(kRetried, "retried", kBeside, "allocations tried again after that", "tried again")                             \
  ROW(kDriverAllocated, "driver.allocated", kAside, "of the grown, allocations whose time at the driver was taken",  \
      "at the driver")                                                                                               \
  ROW(kSparedAllocation, "spared.allocation", kAside,                                                                \
      "allocations that the driver was spared; time: the driver's fastest allocation until then, each time",         \
      "allocations spared")                                                                                          \
  ROW(kSparedFree, "spared.free", kAside,                                                                            \
      "frees that the driver was spared; time: the driver's fastest free until then, each time", "frees spared")

enum class Decision : uint8_t {
#define SLIPSTREAM_ROW(enumerator, ...) enumerator,
  SLIPSTREAM_ALLOCATOR_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
      kCount
};

inline constexpr size_t kDecisionCount = static_cast<size_t>(Decision::kCount);

inline constexpr policy::DecisionText kDecisionTexts[kDecisionCount] = {
#define SLIPSTREAM_ROW(enumerator, name, share, meaning, phrase) {"allocator." name, meaning, phrase},
    SLIPSTREAM_ALLOCATOR_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

}  // namespace slipstream::allocator
