// A thread's last stack, frame by frame. Most of it is also in the next call's stack, and need not be looked up again.
//
// Threading, hazard, ownership: a thread's own (policy/thread_owned.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tracer/python/code_sites.h"
#include "tracer/python/native_stack.h"
#include "tracer/python/python_frame.h"
#include "tracer/python/stack_tree.h"

namespace slipstream::tracer {

struct StackMemo {
  static constexpr size_t kFrames = 128;

  struct Frame {
    CodeSites::Sight sight;
    uint32_t stack;
  };
  uint64_t tree;   // StackTree::number of what the stacks are in
  uint32_t first;  // what the outermost frame was called from
  uint32_t count;
  Frame frames[kFrames];  // the outermost first

  NativeMemo native;

  // The calling thread's, which begins as zeros. Null: there is no memory.
  static StackMemo* Get();
};

// The stack of frames that are running on this thread, the innermost first and at most StackMemo::kFrames; `cut`: there
// are more, further out. A tree's stacks are made of the sites of one CodeSites. Puts the sites where `found` points
// to. kNone: there are no frames, or there was no room.
uint32_t InternStack(std::span<const PythonFrame> frames, bool cut, CodeSites* sites, StackTree* stacks,
                     uint32_t* found);

}  // namespace slipstream::tracer
