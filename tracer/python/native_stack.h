// The native frames of the calling thread, from the hooked function outwards, and numbers for them.
//
// Walk follows what native_frames.h knows about each return address. It reads nothing but the thread's own stack,
// between where the thread is and where its stack ends, so no read can fail, whatever unwind information says. On a
// stack that is not the thread's own (a fiber's), each page is checked first.
//
// Threading: any thread, no lock. A thread's first walk asks the C library where its stack is, which may allocate.
// Hazard: frames are those of the real stack. A function that ended in a tail call has no frame, and an inlined
//   function has its caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tracer/base/stack_numbers.h"
#include "tracer/python/native_frames.h"
#include "tracer/python/stack_tree.h"

namespace slipstream::tracer {

inline constexpr size_t kDeepestNative = 128;

struct NativeWalk {
  size_t frames = 0;  // how many were written
  bool cut = false;   // there are more, further out, or nobody knows
};

// Numbers of return addresses (NativeFrames), innermost first. Frames without one are left out: slipstream's own.
NativeWalk WalkNativeStack(NativeFrames* frames, std::span<uint32_t, kDeepestNative> addresses);

// What StackTree has in place of a site: for a native frame, its address with this bit; for a stack that stands for
// two, the number of the Python stack with the other bit (stack_numbers.h). Sites of lines are smaller.
inline constexpr uint32_t kNativeSite = kNativeSpoolSite;
inline constexpr uint32_t kBothStacks = kBothSpoolStacks;

// The stack of such addresses. What the calling thread saw before is looked up by a hash of it. kNone: there was no
// room, or nothing.
uint32_t InternNativeStack(std::span<const uint32_t> addresses, bool cut, StackTree* stacks);

// A stack for both. If there is only one, that one.
uint32_t InternBothStacks(uint32_t python, uint32_t native, StackTree* stacks);

// What a thread remembers of its native stacks (stack_memo.h).
struct NativeMemo {
  static constexpr size_t kStacks = 256;

  bool knows_stack;  // where it is: else it was not asked for
  uintptr_t stack_start;
  uintptr_t stack_end;

  uint64_t tree;  // StackTree::number of what the stacks are in
  // The last stack that was not found as a whole, outermost frame first.
  uint32_t first;  // kNone or kCut
  uint32_t count;
  uint32_t addresses[kDeepestNative];
  uint32_t stacks[kDeepestNative];
  struct Whole {
    uint64_t hash;
    uint32_t stack;  // kNone: none
    uint32_t check;
  };
  Whole whole[kStacks];
};

}  // namespace slipstream::tracer
