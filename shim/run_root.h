// The end of a run, in the one process that `slipstream run` became.
#pragma once

namespace slipstream::shim {

// Finds the C library's _exit, kill and raise. Done where LookUpExec() is: not between vfork and exec.
void LookUpExit() noexcept;

}  // namespace slipstream::shim
