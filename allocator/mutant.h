// Rules that can be broken on purpose, so that a test can show that it notices.
//
// In the library that users get, Broken() is false at compile time and the code behind it is gone. In the test build
// (SLIPSTREAM_MUTANTS) the variable ALLOCATOR_BROKEN_RULE names the one rule that is broken.
// Threading: any thread.
#pragma once

#include <cstdint>

namespace slipstream::allocator {

// The rule, as tests name it. A second word says which part of it.
enum class Mutant : uint8_t {
  kNone,
  kS30,         // a block is handed out before the work in front of its free has run
  kS30Wait,     // later work is not held behind that work
  kS30Access,   // other devices' contexts are not looked at
  kS30b,        // a free does not wait for what the host can see
  kS31,         // a block of any larger size will do
  kS32,         // cudaMemGetInfo says what the driver says
  kS33,         // an exported block is used again; a heap is not opened to whom its pool is
  kS34,         // a block that is freed twice counts as freed once
  kS35,         // a block goes to the pool of the device that is current
  kS36,         // the pool keeps its memory when the driver has none left
  kS36Others,   // it keeps it when another function than cudaMalloc finds none
  kS36Decay,    // idle memory is kept for good
  kS36Cap,      // any amount of idle memory is kept
  kS36Reserve,  // nothing is left to the driver
  kS37,         // captures are not looked at
  kS38,         // what one stream freed is another's at once
  kS38Wait,     // a stream does not wait for what it takes of another one's
  kS38Fence,    // a fence has passed as soon as it is recorded
  kS38Destroy,  // a stream's blocks are its successor's of the same name
  kS39,         // memory is unmapped before the work on it has run
  kS40,         // a pool's attributes are the driver's alone
  kS55,         // idle memory is given back under a lock
  kS65,         // other threads' work is not looked at
};

#ifdef SLIPSTREAM_MUTANTS
bool Broken(Mutant mutant);
#else
constexpr bool Broken(Mutant) { return false; }
#endif

}  // namespace slipstream::allocator
