// Starts threads of slipstream's own inside the program's process.
//
// It is here because every layer that starts one is above this folder, and all must start them alike.
// Threading: any thread may start one. They are detached: what they use lives until the process ends, or they say
//   themselves when they are done with it.
#pragma once

namespace slipstream::policy {

// Starts a thread with every signal blocked except faults: the program's handlers run where they always ran, and
// SIGXFSZ for a file of ours runs none. Its stack has at least 1 MiB, even if the process's own threads have less.
// False: the system gives no thread. `name` has at most 15 characters.
bool StartHelperThread(const char* name, void* (*body)(void*), void* argument);

}  // namespace slipstream::policy
