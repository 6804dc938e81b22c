// What can be said of device code that a program loads by itself.
#pragma once

namespace slipstream::shim {

// Whether the code calls printf, as far as that can be read: in PTX, in a cubin, and in the parts of a fat binary that
// are not compressed. What nvcc compiles into a program is compressed.
//
// `image`: what the driver has just loaded, so that it is whole (cuda.h, cuModuleLoadData). It says itself how long it
// is.
// Threading: any thread. No allocation.
bool CallsPrintf(const void* image);

}  // namespace slipstream::shim
