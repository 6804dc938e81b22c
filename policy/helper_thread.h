// Threads of slipstream's own inside somebody else's process.
//
// Here because every layer that starts one stands above this folder, and all must start them alike.
// Threading: any thread may start one. They are detached: what they use lives until the process ends, or they say
//   themselves when they are done with it.
#pragma once

namespace slipstream::policy {

// With every signal blocked but faults, so that the program's handlers run where they always ran, and SIGXFSZ of a file
// of ours nowhere, and on a stack of 1 MiB at least, however little the process gives its own threads. False: the
// system gives no thread. `name` has at most 15 characters.
bool StartHelperThread(const char* name, void* (*body)(void*), void* argument);

}  // namespace slipstream::policy
