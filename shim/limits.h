// The limits of the process, which end what is kept of its memory (limits.cpp).
#pragma once

namespace slipstream::shim {

// Finds the C library's setrlimit and prlimit. Done where LookUpExec() is.
void LookUpLimits() noexcept;

}  // namespace slipstream::shim
