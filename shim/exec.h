// The exec functions of the C library, where a policy's [children] keeps the preload out of some programs (exec.cpp).
#pragma once

namespace slipstream::shim {

// Finds the real functions. Done beside the lookup of mmap, which most processes call while they are small: so that it
// is not done between vfork and exec. What is called before looks them up itself.
void LookUpExec() noexcept;

}  // namespace slipstream::shim
