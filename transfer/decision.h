// What the engine decided about a copy or a synchronise, by reason: the names that summaries and traces show.
//
// Threading: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace slipstream::transfer {

// One row each: enumerator, name, what it means (a line for people).
#define SLIPSTREAM_TRANSFER_DECISIONS(ROW)                                                                            \
  ROW(kPromotedSmall, "promoted.small", "copies of up to 64 KiB staged in pinned memory")                             \
  ROW(kPromotedLarge, "promoted.large", "larger copies staged in pinned memory")                                      \
  ROW(kAhead, "ahead", "of these, copies that went to the device while their stream was busy")                        \
  ROW(kFetched, "fetched", "copies to pageable memory that came through staging memory")                              \
  ROW(kLeftOff, "left.off", "copies to the host left alone: switched off by the policy")                              \
  ROW(kLeftRule, "left.rule", "copies to the host left alone: by a rule of the policy")                               \
  ROW(kLeftMemory, "left.memory",                                                                                     \
      "copies to the host left alone: not from plain memory of the device to pageable memory")                        \
  ROW(kLeftSmall, "left.small", "copies to the host left alone: of up to 64 KiB")                                     \
  ROW(kLeftStaging, "left.staging", "copies to the host left alone: no staging memory is free")                       \
  ROW(kLeftDevice, "left.device",                                                                                     \
      "copies to the host left alone: of more than 2 MiB, which the device has no staging memory for")                \
  ROW(kLeftCapture, "left.capture", "copies to the host left alone: a stream is being captured")                      \
  ROW(kLeftContext, "left.context", "copies to the host left alone: a context that the engine does not serve")        \
  ROW(kLeftSlower, "left.slower", "copies to the host left alone: the program's own call was measured to be faster")  \
  ROW(kLeftKernel, "left.kernel",                                                                                     \
      "copies to the host left alone: the system cannot prepare pages (before Linux 5.14)")                           \
  ROW(kLeftError, "left.error", "copies to the host left alone: a call failed, or the memory cannot be written")      \
  ROW(kAsideOff, "aside.off", "copies left alone: switched off by the policy")                                        \
  ROW(kAsideRule, "aside.rule", "copies left alone: by a rule of the policy")                                         \
  ROW(kAsideStarting, "aside.starting", "copies left alone: staging memory is still being pinned")                    \
  ROW(kAsideNoMemory, "aside.no_memory", "copies left alone: no memory could be pinned for staging")                  \
  ROW(kAsideFull, "aside.full", "copies left alone: all staging memory is in flight")                                 \
  ROW(kAsideDevice, "aside.device",                                                                                   \
      "copies left alone: of more than 2 MiB, which the device has no staging memory for")                            \
  ROW(kAsideSource, "aside.source", "copies left alone: the source is not pageable memory")                           \
  ROW(kAsideDestination, "aside.destination", "copies left alone: the destination is not plain memory of the device") \
  ROW(kAsideCapture, "aside.capture", "copies left alone: a stream is being captured")                                \
  ROW(kAsideHostEffect, "aside.host_effect", "copies left alone: earlier work may still write the source")            \
  ROW(kAsideSystemMemory, "aside.system_memory", "copies left alone: the device reaches host memory by itself")       \
  ROW(kAsideThreads, "aside.threads",                                                                                 \
      "copies left alone: of up to 64 KiB, beside another thread that has work of its own on another stream")         \
  ROW(kAsideContext, "aside.context", "copies left alone: a context or a runtime that the engine does not serve")     \
  ROW(kAsideDriver, "aside.driver", "copies left alone: the driver is older than CUDA 12.5")                          \
  ROW(kAsideVerify, "aside.verify", "copies left alone: a copy before did not arrive as its source was")              \
  ROW(kAsideError, "aside.error", "copies left alone: a driver call failed")                                          \
  ROW(kSkipped, "skipped", "synchronises skipped")                                                                    \
  ROW(kSkippedRest, "skipped.rest", "synchronises that waited only for work on host memory")                          \
  ROW(kKeptOff, "kept.off", "synchronises kept: skipping is switched off by the policy")                              \
  ROW(kKeptRule, "kept.rule", "synchronises kept: by a rule of the policy")                                           \
  ROW(kKeptHostEffect, "kept.host_effect", "synchronises kept: another stream may still use host memory")             \
  ROW(kKeptCapture, "kept.capture", "synchronises kept: a stream is being captured")                                  \
  ROW(kKeptContexts, "kept.contexts", "synchronises kept: more than one device context")                              \
  ROW(kKeptMapped, "kept.mapped", "synchronises kept: the program uses managed or mapped host memory")                \
  ROW(kKeptShared, "kept.shared", "synchronises kept: memory is shared with other processes or devices")              \
  ROW(kKeptRdma, "kept.rdma", "synchronises kept: a transport may read the memory")                                   \
  ROW(kKeptThreads, "kept.threads", "synchronises kept: another thread has work of its own on another stream")        \
  ROW(kKeptError, "kept.error", "synchronises kept: a driver call failed")                                            \
  ROW(kPaidSynchronize, "paid.synchronize", "owed waits paid before a synchronise")                                   \
  ROW(kPaidCopy, "paid.copy", "owed waits paid before a blocking copy")                                               \
  ROW(kPaidFree, "paid.free", "owed waits paid before memory is freed")                                               \
  ROW(kPaidShare, "paid.share", "owed waits paid before memory is shared with another process")                       \
  ROW(kPaidCapture, "paid.capture", "owed waits paid before a capture")                                               \
  ROW(kPaidReset, "paid.reset", "owed waits paid before a device is reset")                                           \
  ROW(kPaidProfiler, "paid.profiler", "owed waits paid before a profiler stops")                                      \
  ROW(kPaidQuery, "paid.query", "owed waits paid because a query asked")                                              \
  ROW(kPaidThreadExit, "paid.thread_exit", "owed waits paid at the end of a thread")                                  \
  ROW(kPaidBound, "paid.bound", "oldest owed waits paid because two were open on the stream")                         \
  ROW(kVerified, "verified", "copies through staging memory compared with their source (transfer.verify)")            \
  ROW(kVerifiedWrong, "verified.wrong", "copies through staging memory that did not arrive as their source was")      \
  ROW(kUnverified, "unverified", "copies not compared: no staging memory is free, or another thread uses the stream") \
  ROW(kGaveBack, "gave_back", "times that device staging memory went back to the driver, which was short of memory")  \
  ROW(kUnpinned, "unpinned", "times that idle staging memory was unpinned: the program could pin no more")            \
  ROW(kUnmapped, "unmapped.background", "shared memory of the program's given back by a thread of slipstream's")      \
  ROW(kUnmappedByCaller, "unmapped.caller", "shared memory given back by the program's call: too much was waiting")

enum class Decision : uint8_t {
#define SLIPSTREAM_ROW(enumerator, name, meaning) enumerator,
  SLIPSTREAM_TRANSFER_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
      kCount
};

// Counts one, from any thread.
using CountDecision = void (*)(Decision decision, uint64_t bytes, uint64_t time_ns);

inline constexpr size_t kDecisionCount = static_cast<size_t>(Decision::kCount);

struct DecisionText {
  const char* name;  // "transfer." in front, as files and summaries spell it
  const char* meaning;
};

inline constexpr DecisionText kDecisionTexts[kDecisionCount] = {
#define SLIPSTREAM_ROW(enumerator, name, meaning) {"transfer." name, meaning},
    SLIPSTREAM_TRANSFER_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

}  // namespace slipstream::transfer
