// The recorded runs of the working directory, for commands that are given none.
//
// Threading: reads folders; call from one thread.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

// Folders that `slipstream run --record` named and that hold a trace, by their names, the newest first.
std::vector<std::string> RunsHere();

// The newest `count` of them, the oldest first, and says on standard error which they are and which others there are;
// empty: there are fewer.
std::vector<std::string> TakeNewest(const std::string& command, size_t count);

}  // namespace slipstream::cli
