// How stacks are numbered, in the process and in its spool.
//
// Threading: constants.
#pragma once

#include <cstdint>

namespace slipstream::tracer {

// A stack of a kStacks chunk is the frame at `site` (0: one that nobody can name), called from the stack `parent`,
// which has a lower number and was written before. Parents that are no stacks: 0, nothing is further out; 1, what is
// further out was not recorded.
inline constexpr uint32_t kFirstSpoolStack = 2;
inline constexpr uint32_t kCutSpoolStack = 1;
// With this bit a site is the number of an address, and the frame a native one: what stands at an offset in a module's
// file (the module 0: in none, and the offset is the address itself) is where the call returned to.
inline constexpr uint32_t kNativeSpoolSite = 1U << 31;
// And with this one it is the number of a stack of Python's, and there is no frame: the stack is that one and its
// parent, a stack of native frames, both of them whole.
inline constexpr uint32_t kBothSpoolStacks = 1U << 30;

}  // namespace slipstream::tracer
