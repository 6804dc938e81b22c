// Files that a user asked for by name, written whole or not at all.
//
// Threading: no state.
#pragma once

#include <string>

namespace slipstream::cli {

// Why it could not be written, for people; empty: it is there, 0644 less the umask. What is there already stays, unless
// `force`: then at every moment one of the two is there whole. Never through a symbolic link.
std::string WriteTextFile(const std::string& path, const std::string& text, bool force);

}  // namespace slipstream::cli
