// An end to a process that is stuck, with where: a broken rule may show as a hang, and so may a driver.
//
// Threading: call it once, from main.
#pragma once

namespace conformance {

// After CONFORMANCE_SECONDS (100) prints "stuck" and the stack of each thread to the standard error, and ends the
// process with status 1. Lines are "MODULE(+OFFSET)", as addr2line takes them.
void EndIfStuck();

}  // namespace conformance
