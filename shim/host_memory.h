// How a block of PyTorch's host memory is given back by others than PyTorch (host_memory.cpp).
//
// Threading: any thread.
#pragma once

namespace slipstream::shim {

// By PyTorch's own function.
void FreeHostBlock(void* block);

// Whether it comes from the C library in the end: nothing that was loaded with the program has malloc() or its kin.
bool LibcAllocates();

}  // namespace slipstream::shim
