// What the allocator decided about an allocation or a free, by reason: the names that summaries and traces show.
//
// Threading: constants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream::allocator {

// One row each: enumerator, name, what it means (a line for people).
#define SLIPSTREAM_ALLOCATOR_DECISIONS(ROW)                                                                            \
  ROW(kReused, "reused", "allocations served with a block whose last work has run")                                    \
  ROW(kReusedBehind, "reused.behind", "allocations served with a block behind whose last work all later work waits")   \
  ROW(kGrown, "grown", "allocations that the driver served because no block fitted")                                   \
  ROW(kReserved, "reserved", "idle blocks made in advance, when the program first used the device")                    \
  ROW(kPassedCapture, "passed.capture", "allocations left to the program's call: a stream is being captured")          \
  ROW(kPassedContext, "passed.context",                                                                                \
      "allocations left to the program's call: a context or a runtime that is not served")                             \
  ROW(kPassedMemory, "passed.memory", "allocations left to the program's call: the driver has no memory left")         \
  ROW(kParked, "parked", "frees that waited for nothing and kept the block")                                           \
  ROW(kFreedCapture, "freed.capture", "real frees: a stream is being captured")                                        \
  ROW(kFreedShared, "freed.shared", "real frees: the block is shared with another process")                            \
  ROW(kFreedHostEffect, "freed.host_effect", "real frees: what the host could see cannot be told")                     \
  ROW(kFreedContext, "freed.context", "real frees: a context's work cannot be fenced")                                 \
  ROW(kFreedCap, "freed.cap", "real frees: enough idle memory is kept")                                                \
  ROW(kFreedReserve, "freed.reserve", "real frees: the driver has little memory left")                                 \
  ROW(kFreedThread, "freed.thread", "real frees: no thread could be started to look after idle memory")                \
  ROW(kFreedForeign, "freed.foreign", "real frees: memory that did not come from here")                                \
  ROW(kTrimmed, "trimmed", "idle blocks given back to the driver because nobody wanted them")                          \
  ROW(kReclaimed, "reclaimed", "idle blocks given back to the driver because it had no memory left")                   \
  ROW(kRetried, "retried", "allocations tried again after that")                                                       \
  ROW(kStreamReused, "stream.reused",                                                                                  \
      "stream-ordered allocations served with memory that was free in its stream's order")                             \
  ROW(kStreamGrown, "stream.grown", "stream-ordered allocations served with new memory")                               \
  ROW(kStreamMoved, "stream.moved", "stream-ordered allocations served with idle memory put together in one piece")    \
  ROW(kStreamBehind, "stream.behind", "stream-ordered allocations served with another stream's memory, behind a wait") \
  ROW(kStreamWaited, "stream.waited",                                                                                  \
      "stream-ordered allocations that waited for the device, because memory was short")                               \
  ROW(kStreamPassedCapture, "stream.passed.capture",                                                                   \
      "stream-ordered allocations left to the program's call: their stream is being captured")                         \
  ROW(kStreamPassedPool, "stream.passed.pool",                                                                         \
      "stream-ordered allocations left to the program's call: from a pool of its own")                                 \
  ROW(kStreamPassedContext, "stream.passed.context",                                                                   \
      "stream-ordered allocations left to the program's call: a context or a runtime that is not served")              \
  ROW(kStreamPassedMemory, "stream.passed.memory",                                                                     \
      "stream-ordered allocations left to the program's call: there is no memory left")                                \
  ROW(kStreamFreed, "stream.freed", "frees in a stream's order")                                                       \
  ROW(kStreamTrimmed, "stream.trimmed", "memory of the stream-ordered heap given back to the driver")

enum class Decision : uint8_t {
#define SLIPSTREAM_ROW(enumerator, name, meaning) enumerator,
  SLIPSTREAM_ALLOCATOR_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
      kCount
};

inline constexpr size_t kDecisionCount = static_cast<size_t>(Decision::kCount);

struct DecisionText {
  const char* name;  // "allocator." in front, as files and summaries spell it
  const char* meaning;
};

inline constexpr DecisionText kDecisionTexts[kDecisionCount] = {
#define SLIPSTREAM_ROW(enumerator, name, meaning) {"allocator." name, meaning},
    SLIPSTREAM_ALLOCATOR_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

}  // namespace slipstream::allocator
