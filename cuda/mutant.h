// Rules that can be broken on purpose, so that a test can show that it notices.
//
// In the library that users get, Broken() is false at compile time and the code behind it is gone. In the test build
// (SLIPSTREAM_MUTANTS) the variable BROKEN_RULE names the one rule that is broken. (Not SLIPSTREAM_...: those are the
// policy's, and one that it does not know turns everything off.)
//
// Threading: any thread.
#pragma once

#include <cstdint>

namespace slipstream {

// One row each: enumerator; the name by which tests break it, which begins with its rule's number; what is broken.
#define SLIPSTREAM_MUTANT_ROWS(ROW)                                                                             \
  ROW(kS01, "S01", "a pinned or registered source is read early too")                                           \
  ROW(kS02, "S02", "memory that the device reaches by itself is staged")                                        \
  ROW(kS03, "S03", "pending host functions are not looked at before the source is read")                        \
  ROW(kS04, "S04", "pending copies to host memory are not looked at before the source is read")                 \
  ROW(kS05, "S05", "a capturing stream gets its copy at once")                                                  \
  ROW(kS05Growth, "S05growth", "staging memory is pinned in the thread's own capture mode")                     \
  ROW(kS06, "S06", "any destination will do")                                                                   \
  ROW(kS07, "S07", "the copy runs on a stream of its own")                                                      \
  ROW(kS07Ahead, "S07ahead", "what went ahead of the stream is passed on ahead of it too")                      \
  ROW(kS07Arrived, "S07arrived", "it is passed on before it has arrived")                                       \
  ROW(kS08, "S08", "full staging memory is waited for")                                                         \
  ROW(kS08Early, "S08early", "staging memory is used again before it has been read")                            \
  ROW(kS09, "S09", "any later synchronization of the stream is a candidate")                                    \
  ROW(kS10, "S10", "effects on this stream are not waited for")                                                 \
  ROW(kS10Asleep, "S10asleep", "what was not recorded is not stood for by anything")                            \
  ROW(kS10Other, "S10other", "effects on other streams are not looked at")                                      \
  ROW(kS11, "S11", "managed and mapped memory are not looked at")                                               \
  ROW(kS12, "S12", "later work is not held behind the copy")                                                    \
  ROW(kS12Contexts, "S12contexts", "other contexts and captures are not looked at")                             \
  ROW(kS13All, "S13all", "exports, captures and resets settle what their own thread has deferred, and no more") \
  ROW(kS13Free, "S13free", "frees, exports, captures, resets and profilers settle nothing")                     \
  ROW(kS13Query, "S13query", "queries answer what the driver says")                                             \
  ROW(kS13Thread, "S13thread", "a thread's end settles nothing")                                                \
  ROW(kS14, "S14", "CUDA_LAUNCH_BLOCKING is not looked at")                                                     \
  ROW(kS15, "S15", "queries ask the runtime first")                                                             \
  ROW(kS16, "S16", "a copy to pageable host memory returns before it is complete")                              \
  ROW(kS17, "S17", "a failed part of a copy is forgotten")                                                      \
  ROW(kS22, "S22", "shared memory is not looked at")                                                            \
  ROW(kS23, "S23", "any number of synchronizations may be deferred")                                            \
  ROW(kS30, "S30", "a block is handed out before the work in front of its free has run")                        \
  ROW(kS30Access, "S30access", "other devices' contexts are not looked at")                                     \
  ROW(kS30b, "S30b", "a free does not wait for what the host can see")                                          \
  ROW(kS30Wait, "S30wait", "later work is not held behind that work")                                           \
  ROW(kS31, "S31", "a block of any larger size will do")                                                        \
  ROW(kS32, "S32", "cudaMemGetInfo says what the driver says")                                                  \
  ROW(kS33, "S33", "an exported block is used again")                                                           \
  ROW(kS34, "S34", "a block that is freed twice counts as freed once")                                          \
  ROW(kS35, "S35", "a block goes to the pool of the device that is current")                                    \
  ROW(kS36, "S36", "idle memory and staging memory are kept where an allocation fails")                         \
  ROW(kS36Cap, "S36cap", "any amount of idle memory is kept")                                                   \
  ROW(kS36Decay, "S36decay", "idle memory is kept for good")                                                    \
  ROW(kS36host, "S36host", "staging memory of the host is kept where the program can pin no more")              \
  ROW(kS36Others, "S36others", "it keeps it when another function than cudaMalloc finds none")                  \
  ROW(kS36Reserve, "S36reserve", "nothing is left to the driver")                                               \
  ROW(kS37, "S37", "captures are not looked at")                                                                \
  ROW(kS55, "S55", "idle memory is given back under a lock")                                                    \
  ROW(kS62, "S62", "a copy is as many operations of its stream as it has pieces")                               \
  ROW(kS63, "S63", "queries look at what their own thread has deferred, and no more")                           \
  ROW(kS64, "S64", "NCCL's copies by a thread of its own are not looked at")                                    \
  ROW(kS65, "S65", "threads with work of their own are not looked at")                                          \
  ROW(kS66, "S66", "functions of a runtime that nobody knows are no reason to stand aside")                     \
  ROW(kS67, "S67", "what memory is left is not looked at")                                                      \
  ROW(kS70, "S70", "the driver's functions are not watched at the level of the runtime")                        \
  ROW(kS71, "S71", "work that is submitted by the driver's functions ends no claim to a synchronization")       \
  ROW(kS73, "S73", "memory is given back by calls that wait for the device")                                    \
  ROW(kS74, "S74", "a thread that shares the stream may be held back on its others")                            \
  ROW(kS79, "S79", "what a program ends without having waited for is not waited for")                           \
  ROW(kS80, "S80", "a mirror's source counts as unchanged")                                                     \
  ROW(kS80Ends, "S80ends", "what lies outside of its whole pages is not compared")                              \
  ROW(kS80Late, "S80late", "its pages are protected when they have been read")                                  \
  ROW(kS80Pending, "S80pending", "a mirror is filled again before it has been read")                            \
  ROW(kS80Shared, "S80shared", "two mirrors share the account of a page")                                       \
  ROW(kS72, "S72", "what another preloaded library wraps is not looked at")                                     \
  ROW(kAsleepSoon, "AsleepSoon", "none is broken: effects on host memory are soon not recorded any more")       \
  ROW(kR1, "R1", "a policy rule's `promote` is not looked at")                                                  \
  ROW(kR2, "R2", "a policy rule's `skip_synchronize` is not looked at")                                         \
  ROW(kR3, "R3", "a policy rule's `site` is not looked at")                                                     \
  ROW(kU1, "U1", "what is unmapped in the background stays where it is meanwhile")                              \
  ROW(kU2, "U2", "any shared mapping of a file will do")                                                        \
  ROW(kU3, "U3", "any amount may wait to be given back")                                                        \
  ROW(kU4, "U4", "forked children inherit what waits")                                                          \
  ROW(kVerify, "Verify", "what came back of a copy is not compared")

enum class Mutant : uint8_t {
  kNone,
#define SLIPSTREAM_ROW(enumerator, name, meaning) enumerator,
  SLIPSTREAM_MUTANT_ROWS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

#ifdef SLIPSTREAM_MUTANTS
bool Broken(Mutant mutant);
#else
constexpr bool Broken(Mutant) { return false; }
#endif

}  // namespace slipstream
