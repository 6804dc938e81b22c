// Rules that can be broken on purpose, so that a test can show that it notices.
//
// In the library that users get, Broken() is false at compile time and the code behind it is gone. In the test build
// (SLIPSTREAM_MUTANTS) the variable TRANSFER_BROKEN_RULE names the one rule that is broken. (Not SLIPSTREAM_...: those
// are the policy's, and one that it does not know turns everything off.)
// Threading: any thread.
#pragma once

#include <cstdint>

namespace slipstream::transfer {

// The rule, as tests name it. A second word says which part of it.
enum class Mutant : uint8_t {
  kNone,
  kS01,          // a pinned or registered source is read early too
  kS02,          // memory that the device reaches by itself is staged
  kS03,          // pending host functions are not looked at before the source is read
  kS04,          // pending copies to host memory are not looked at before the source is read
  kS05,          // a capturing stream gets its copy at once
  kS05Growth,    // staging memory is pinned in the thread's own capture mode
  kS06,          // any destination will do
  kS07,          // the copy runs on a stream of its own
  kS07Ahead,     // what went ahead of the stream is passed on ahead of it too
  kS07Arrived,   // it is passed on before it has arrived
  kS08,          // full staging memory is waited for
  kS08Early,     // staging memory is used again before it has been read
  kS09,          // any later synchronise of the stream is a candidate
  kS10,          // effects on this stream are not waited for
  kS10Other,     // effects on other streams are not looked at
  kS10Asleep,    // what was not recorded is not stood for by anything
  kS11,          // managed and mapped memory are not looked at
  kS12,          // later work is not held behind the copy
  kS12Contexts,  // other contexts and captures are not looked at
  kS13Query,     // queries answer what the driver says
  kS13Free,      // frees, exports, captures, resets and profilers do not pay
  kS13All,       // exports, captures and resets pay what their own thread owes, and no more
  kS13Thread,    // a thread's end does not pay
  kS14,          // CUDA_LAUNCH_BLOCKING is not looked at
  kS15,          // queries ask the runtime first
  kS16,          // a copy to pageable host memory returns before it is complete
  kS17,          // a failed part of a copy is forgotten
  kS22,          // shared memory is not looked at
  kS23,          // any number of synchronises may be owed
  kS36,          // staging memory of the device is kept where an allocation fails
  kS36host,      // staging memory of the host is kept where the program can pin no more
  kS62,          // a copy is as many operations of its stream as it has pieces
  kS63,          // queries look at what their own thread owes, and no more
  kS64,          // NCCL's copies by a thread of its own are not looked at
  kS66,          // functions of a runtime that nobody knows are no reason to stand aside
  kS65,          // threads with work of their own are not looked at
  kS67,          // what memory is left is not looked at
  kVerify,       // what came back of a copy is not compared
  kR1,           // a policy rule's "promote" is not looked at
  kR2,           // a policy rule's "skip_synchronize" is not looked at
  kR3,           // a policy rule's "site" is not looked at
  kU1,           // what is unmapped in the background stays where it is meanwhile
  kU2,           // any shared mapping of a file will do
  kU3,           // any amount may wait to be given back
  kAsleepSoon,   // none is broken: effects on host memory are soon not recorded any more
  kU4,           // forked children inherit what waits
};

#ifdef SLIPSTREAM_MUTANTS
bool Broken(Mutant mutant);
#else
constexpr bool Broken(Mutant) { return false; }
#endif

}  // namespace slipstream::transfer
