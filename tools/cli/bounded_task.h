// A task that may hang in the system, such as a write to a file server that does not answer: in a process of its own,
// for which nobody waits longer than was said.
//
// The process has none of this one's descriptors and standard streams. One that is late goes on by itself.
// Threading: where there is one thread.
#pragma once

#include <functional>
#include <string>

namespace slipstream::cli {

// Why the task failed, as it says itself; empty: it is done. `milliseconds` at most; then `late` is the answer.
std::string DoWithin(int milliseconds, const std::string& late, const std::function<std::string()>& task);

}  // namespace slipstream::cli
