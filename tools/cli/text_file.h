// Writes files that a user asked for by name, as a whole or not at all.
//
// Threading: no state.
#pragma once

#include <string>

namespace slipstream::cli {

// Why it could not be written, for people; empty: it is there, 0644 less the umask. An existing file stays, unless
// `force`: then it is replaced atomically. Never through a symbolic link.
std::string WriteTextFile(const std::string& path, const std::string& text, bool force);

}  // namespace slipstream::cli
