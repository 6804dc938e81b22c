// The memory nodes of the machine, as far as pinned memory has to know them.
//
// Threading: any thread. Without the system calls (a container may refuse them) the answer is the careful one.
#pragma once

#include <cstddef>

namespace slipstream::allocator {

// The node of the processor that the calling thread runs on; 0: unknown.
int CurrentNode();

// How many threads may fill the fresh memory so that all of it lies where the calling thread alone would have put it:
// `threads` or 1. May tell the system to prefer the calling thread's node for it.
int ThreadsThatMayFill(void* memory, size_t bytes, int threads);

}  // namespace slipstream::allocator
