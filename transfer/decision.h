// What the engine decided about a copy or a synchronization, by reason: the names that summaries and traces show.
//
// Threading: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "policy/decision_text.h"

namespace slipstream::transfer {

// policy/decision_text.h says what a row has.
#define SLIPSTREAM_TRANSFER_DECISIONS(ROW)                                                                             \
  ROW(kH2dPromotedSmall, "h2d.promoted.small", kOutcome,                                                               \
      "copies to the device of up to 64 KiB, which the driver takes at once", "small")                                 \
  ROW(kH2dPromotedLarge, "h2d.promoted.large", kOutcome, "larger copies to the device staged in pinned memory",        \
      "large")                                                                                                         \
  ROW(kH2dAhead, "h2d.ahead", kBeside, "of these, copies that went to the device while their stream was busy",         \
      "ahead of a busy stream")                                                                                        \
  ROW(kH2dMirrored, "h2d.mirrored", kBeside, "of these, copies out of a mirror of a source that does not change",      \
      "out of a mirror")                                                                                               \
  ROW(kD2hPromoted, "d2h.promoted", kOutcome, "copies to the host that came through staging memory",                   \
      "through staging memory")                                                                                        \
  ROW(kD2hDeclinedOff, "d2h.declined.off", kOutcome, "copies to the host declined: switched off by the policy",        \
      "switched off by the policy")                                                                                    \
  ROW(kD2hDeclinedRule, "d2h.declined.rule", kOutcome, "copies to the host declined: by a rule of the policy",         \
      "by a rule of the policy")                                                                                       \
  ROW(kD2hDeclinedMemory, "d2h.declined.memory", kOutcome,                                                             \
      "copies to the host declined: not from plain memory of the device to pageable memory",                           \
      "not from plain device memory to pageable memory")                                                               \
  ROW(kD2hDeclinedSmall, "d2h.declined.small", kOutcome, "copies to the host declined: of up to 64 KiB",               \
      "of up to 64 KiB")                                                                                               \
  ROW(kD2hDeclinedStaging, "d2h.declined.staging", kOutcome, "copies to the host declined: no staging memory is free", \
      "with no staging memory free")                                                                                   \
  ROW(kD2hDeclinedDevice, "d2h.declined.device", kOutcome,                                                             \
      "copies to the host declined: of more than 2 MiB, which the device has no staging memory for",                   \
      "of more than 2 MiB, without device memory for them")                                                            \
  ROW(kD2hDeclinedCapture, "d2h.declined.capture", kOutcome,                                                           \
      "copies to the host declined: a stream is being captured", "during a stream capture")                            \
  ROW(kD2hDeclinedContext, "d2h.declined.context", kOutcome,                                                           \
      "copies to the host declined: a context that the engine does not serve",                                         \
      "in a context that the engine does not serve")                                                                   \
  ROW(kD2hDeclinedSlower, "d2h.declined.slower", kOutcome,                                                             \
      "copies to the host declined: the program's own call was measured to be faster", "because that is faster here")  \
  ROW(kD2hDeclinedKernel, "d2h.declined.kernel", kOutcome,                                                             \
      "copies to the host declined: the system cannot prepare pages (before Linux 5.14)",                              \
      "because the system cannot prepare pages (before Linux 5.14)")                                                   \
  ROW(kD2hDeclinedError, "d2h.declined.error", kOutcome,                                                               \
      "copies to the host declined: a call failed, or the memory cannot be written",                                   \
      "after a failed call, or to memory that cannot be written")                                                      \
  ROW(kH2dDeclinedOff, "h2d.declined.off", kOutcome, "copies to the device declined: switched off by the policy",      \
      "switched off by the policy")                                                                                    \
  ROW(kH2dDeclinedRule, "h2d.declined.rule", kOutcome, "copies to the device declined: by a rule of the policy",       \
      "by a rule of the policy")                                                                                       \
  ROW(kH2dDeclinedStarting, "h2d.declined.starting", kOutcome,                                                         \
      "copies to the device declined: staging memory is still being pinned", "while staging memory was being pinned")  \
  ROW(kH2dDeclinedNoMemory, "h2d.declined.no_memory", kOutcome,                                                        \
      "copies to the device declined: no memory could be pinned for staging",                                          \
      "as no memory could be pinned for staging")                                                                      \
  ROW(kH2dDeclinedFull, "h2d.declined.full", kOutcome,                                                                 \
      "copies to the device declined: all staging memory is in flight", "while all staging memory was in flight")      \
  ROW(kH2dDeclinedDevice, "h2d.declined.device", kOutcome,                                                             \
      "copies to the device declined: of more than 2 MiB, which the device has no staging memory for",                 \
      "of more than 2 MiB, without device memory for them")                                                            \
  ROW(kH2dDeclinedSource, "h2d.declined.source", kOutcome,                                                             \
      "copies to the device declined: the source is not pageable memory", "from memory that is not pageable")          \
  ROW(kH2dDeclinedDestination, "h2d.declined.destination", kOutcome,                                                   \
      "copies to the device declined: the destination is not plain memory of the device",                              \
      "to memory that is not plain device memory")                                                                     \
  ROW(kH2dDeclinedCapture, "h2d.declined.capture", kOutcome,                                                           \
      "copies to the device declined: a stream is being captured", "during a stream capture")                          \
  ROW(kH2dDeclinedHostEffect, "h2d.declined.host_effect", kOutcome,                                                    \
      "copies to the device declined: earlier work may still write the source",                                        \
      "while earlier work could still write the source")                                                               \
  ROW(kH2dDeclinedSystemMemory, "h2d.declined.system_memory", kOutcome,                                                \
      "copies to the device declined: the device reaches host memory by itself",                                       \
      "because the device reaches host memory by itself")                                                              \
  ROW(kH2dDeclinedThreads, "h2d.declined.threads", kOutcome,                                                           \
      "copies to the device declined: of up to 64 KiB, beside another thread that has work of its own on another "     \
      "stream",                                                                                                        \
      "of up to 64 KiB, beside another thread that has work of its own")                                               \
  ROW(kH2dDeclinedContext, "h2d.declined.context", kOutcome,                                                           \
      "copies to the device declined: a context or a runtime that the engine does not serve",                          \
      "in a context that the engine does not serve")                                                                   \
  ROW(kH2dDeclinedDriver, "h2d.declined.driver", kOutcome,                                                             \
      "copies to the device declined: the driver is older than CUDA 12.5",                                             \
      "because the driver is older than CUDA 12.5")                                                                    \
  ROW(kH2dDeclinedVerify, "h2d.declined.verify", kOutcome,                                                             \
      "copies to the device declined: a copy before did not arrive as its source was",                                 \
      "because a copy had arrived wrong")                                                                              \
  ROW(kH2dDeclinedError, "h2d.declined.error", kOutcome, "copies to the device declined: a driver call failed",        \
      "after a failed driver call")                                                                                    \
  ROW(kSyncSkipped, "sync.skipped", kSynchronize, "synchronizations skipped", "skipped")                               \
  ROW(kSyncSkippedRest, "sync.skipped.rest", kSynchronize,                                                             \
      "synchronizations that waited only for work on host memory", "after waiting for work on host memory")            \
  ROW(kSyncKeptOff, "sync.kept.off", kSynchronize, "synchronizations kept: skipping is switched off by the policy",    \
      "switched off by the policy")                                                                                    \
  ROW(kSyncKeptRule, "sync.kept.rule", kSynchronize, "synchronizations kept: by a rule of the policy",                 \
      "by a rule of the policy")                                                                                       \
  ROW(kSyncKeptHostEffect, "sync.kept.host_effect", kSynchronize,                                                      \
      "synchronizations kept: another stream may still use host memory",                                               \
      "while another stream could still use host memory")                                                              \
  ROW(kSyncKeptCapture, "sync.kept.capture", kSynchronize, "synchronizations kept: a stream is being captured",        \
      "during a stream capture")                                                                                       \
  ROW(kSyncKeptContexts, "sync.kept.contexts", kSynchronize, "synchronizations kept: more than one device context",    \
      "with more than one device context")                                                                             \
  ROW(kSyncKeptMapped, "sync.kept.mapped", kSynchronize,                                                               \
      "synchronizations kept: the program uses managed or mapped host memory",                                         \
      "with managed or mapped host memory in use")                                                                     \
  ROW(kSyncKeptPrintf, "sync.kept.printf", kSynchronize, "synchronizations kept: the program's kernels print",         \
      "with kernels that print")                                                                                       \
  ROW(kSyncKeptShared, "sync.kept.shared", kSynchronize,                                                               \
      "synchronizations kept: memory is shared with other processes or devices",                                       \
      "with memory shared between processes or devices")                                                               \
  ROW(kSyncKeptRdma, "sync.kept.rdma", kSynchronize, "synchronizations kept: a transport may read the memory",         \
      "with a transport that may read the memory")                                                                     \
  ROW(kSyncKeptThreads, "sync.kept.threads", kSynchronize,                                                             \
      "synchronizations kept: another thread has work of its own on another stream",                                   \
      "with another thread that has work of its own")                                                                  \
  ROW(kSyncKeptError, "sync.kept.error", kSynchronize, "synchronizations kept: a driver call failed",                  \
      "after a failed driver call")                                                                                    \
  ROW(kSyncSettledSynchronize, "sync.settled.synchronize", kBeside,                                                    \
      "skipped waits made up for before a synchronization", "before a synchronization")                                \
  ROW(kSyncSettledCopy, "sync.settled.copy", kBeside, "skipped waits made up for before a blocking copy",              \
      "before a blocking copy")                                                                                        \
  ROW(kSyncSettledFree, "sync.settled.free", kBeside, "skipped waits made up for before memory is freed",              \
      "before a free")                                                                                                 \
  ROW(kSyncSettledShare, "sync.settled.share", kWaited,                                                                \
      "skipped waits made up for before memory is shared with another process",                                        \
      "before memory was shared with a process")                                                                       \
  ROW(kSyncSettledCapture, "sync.settled.capture", kWaited, "skipped waits made up for before a capture",              \
      "before a stream capture")                                                                                       \
  ROW(kSyncSettledReset, "sync.settled.reset", kBeside, "skipped waits made up for before a device is reset",          \
      "before a device reset")                                                                                         \
  ROW(kSyncSettledProfiler, "sync.settled.profiler", kWaited, "skipped waits made up for before a profiler stops",     \
      "before a profiler stopped")                                                                                     \
  ROW(kSyncSettledQuery, "sync.settled.query", kWaited, "skipped waits made up for because a query asked",             \
      "because a query asked")                                                                                         \
  ROW(kSyncSettledThreadExit, "sync.settled.thread_exit", kBeside, "skipped waits made up for at the end of a thread", \
      "at the end of a thread")                                                                                        \
  ROW(kSyncSettledBound, "sync.settled.bound", kBeside,                                                                \
      "oldest skipped waits made up for because two were open on the stream", "because two were open on a stream")     \
  ROW(kSyncRanOn, "sync.ran_on", kAside,                                                                               \
      "skipped waits that were still due when their thread came back to them; time: for which threads had gone on, "   \
      "at least",                                                                                                      \
      "still due later")                                                                                               \
  ROW(kVerified, "verified", kBeside, "copies through staging memory compared with their source (transfer.verify)",    \
      "compared after reading them back")                                                                              \
  ROW(kVerifiedWrong, "verified.wrong", kBeside,                                                                       \
      "copies through staging memory that did not arrive as their source was", "WRONG, which switched the engine off") \
  ROW(kUnverified, "unverified", kBeside,                                                                              \
      "copies not compared: no staging memory is free, or another thread uses the stream",                             \
      "not compared, with no staging memory free or on a stream of several threads")                                   \
  ROW(kGaveBack, "gave_back", kBeside,                                                                                 \
      "times that device staging memory went back to the driver, which was short of memory",                           \
      "device staging memory went back to the driver")                                                                 \
  ROW(kUnpinned, "unpinned", kBeside, "times that idle staging memory was unpinned: the program could pin no more",    \
      "staging memory was unpinned for it")                                                                            \
  ROW(kUnmapped, "unmapped.background", kBeside,                                                                       \
      "shared memory of the program's given back by a thread of slipstream's", "in the background")                    \
  ROW(kUnmappedByCaller, "unmapped.caller", kBeside,                                                                   \
      "shared memory given back by the program's call: too much was waiting",                                          \
      "by the program's call, because too much was waiting")                                                           \
  ROW(kHostReused, "host.reused", kBeside, "blocks of host memory that PyTorch had freed, and got again",              \
      "freed by PyTorch before")

enum class Decision : uint8_t {
#define SLIPSTREAM_ROW(enumerator, ...) enumerator,
  SLIPSTREAM_TRANSFER_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
      kCount
};

// Counts one, from any thread.
using CountDecision = void (*)(Decision decision, uint64_t bytes, uint64_t time_ns);

inline constexpr size_t kDecisionCount = static_cast<size_t>(Decision::kCount);

inline constexpr policy::DecisionText kDecisionTexts[kDecisionCount] = {
#define SLIPSTREAM_ROW(enumerator, name, share, meaning, phrase) {"transfer." name, meaning, phrase},
    SLIPSTREAM_TRANSFER_DECISIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

}  // namespace slipstream::transfer
