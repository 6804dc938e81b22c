// Closes descriptors that a process has inherited.
//
// Threading: where there is one thread.
#pragma once

namespace slipstream::cli {

// All from `first` on.
void CloseFrom(int first);

}  // namespace slipstream::cli
