// How stacks are numbered, in the process and in its spool.
//
// Threading: constants.
#pragma once

#include <cstdint>

namespace slipstream::tracer {

// A stack of a kStacks chunk is the frame at `site` (0: it has no name), called from the stack `parent`, which has a
// lower number and was written before. Two parents are not stacks: 0, nothing is further out; 1, frames further out
// were not recorded.
inline constexpr uint32_t kFirstSpoolStack = 2;
inline constexpr uint32_t kCutSpoolStack = 1;
// With this bit a site is the number of an address, and the frame is a native one. The address is an offset in a
// module's file, to which the call returns (module 0: no module, and the offset is the address itself).
inline constexpr uint32_t kNativeSpoolSite = 1U << 31;
// With this bit a site is the number of a Python stack, and there is no frame: the stack is that one together with its
// parent, a stack of native frames.
inline constexpr uint32_t kBothSpoolStacks = 1U << 30;

}  // namespace slipstream::tracer
