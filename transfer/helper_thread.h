// Threads of slipstream's own inside somebody else's process.
//
// Threading: any thread may start one. They are detached and run until the process ends.
#pragma once

namespace slipstream::transfer {

// With every signal blocked but faults, so that the program's handlers run where they always ran. False: the system
// gives no thread. `name` has at most 15 characters.
bool StartHelperThread(const char* name, void* (*body)(void*), void* argument);

}  // namespace slipstream::transfer
