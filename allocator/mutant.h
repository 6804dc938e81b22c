// Rules that can be broken on purpose, so that a test can show that it notices.
//
// In the library that users get, Broken() is false at compile time and the code behind it is gone. In the test build
// (SLIPSTREAM_MUTANTS) the variable ALLOCATOR_BROKEN_RULE names the one rule that is broken.
// Threading: any thread.
#pragma once

#include <cstdint>

namespace slipstream::allocator {

// One row each: enumerator; the name by which tests break it, which begins with its rule's number; what is broken.
#define SLIPSTREAM_ALLOCATOR_MUTANTS(ROW)                                                       \
  ROW(kS30, "S30", "a block is handed out before the work in front of its free has run")        \
  ROW(kS30Wait, "S30wait", "later work is not held behind that work")                           \
  ROW(kS30Access, "S30access", "other devices' contexts are not looked at")                     \
  ROW(kS30b, "S30b", "a free does not wait for what the host can see")                          \
  ROW(kS31, "S31", "a block of any larger size will do")                                        \
  ROW(kS32, "S32", "cudaMemGetInfo says what the driver says")                                  \
  ROW(kS33, "S33", "an exported block is used again; a heap is not opened to whom its pool is") \
  ROW(kS34, "S34", "a block that is freed twice counts as freed once")                          \
  ROW(kS35, "S35", "a block goes to the pool of the device that is current")                    \
  ROW(kS36, "S36", "the pool keeps its memory when the driver has none left")                   \
  ROW(kS36Others, "S36others", "it keeps it when another function than cudaMalloc finds none")  \
  ROW(kS36Decay, "S36decay", "idle memory is kept for good")                                    \
  ROW(kS36Cap, "S36cap", "any amount of idle memory is kept")                                   \
  ROW(kS36Reserve, "S36reserve", "nothing is left to the driver")                               \
  ROW(kS37, "S37", "captures are not looked at")                                                \
  ROW(kS38, "S38", "what one stream freed is another's at once")                                \
  ROW(kS38Wait, "S38wait", "a stream does not wait for what it takes of another one's")         \
  ROW(kS38Fence, "S38fence", "a fence has passed as soon as it is recorded")                    \
  ROW(kS38Destroy, "S38destroy", "a stream's blocks are its successor's of the same name")      \
  ROW(kS39, "S39", "memory is unmapped before the work on it has run")                          \
  ROW(kS40, "S40", "a pool's attributes are the driver's alone")                                \
  ROW(kS55, "S55", "idle memory is given back under a lock")                                    \
  ROW(kS65, "S65", "other threads' work is not looked at")

enum class Mutant : uint8_t {
  kNone,
#define SLIPSTREAM_ROW(enumerator, name, meaning) enumerator,
  SLIPSTREAM_ALLOCATOR_MUTANTS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW
};

#ifdef SLIPSTREAM_MUTANTS
bool Broken(Mutant mutant);
#else
constexpr bool Broken(Mutant) { return false; }
#endif

}  // namespace slipstream::allocator
