// What was built.
#pragma once

#include <string>

namespace slipstream::cli {

// The project's version, such as "0.1.0".
extern const char* const kVersion;

// What --version prints: "slipstream 0.1.0 (commit 0123456789ab)", with "-dirty" behind the commit where tracked files
// had been changed; without the brackets where the sources were in no clone of git's.
std::string VersionLine();

}  // namespace slipstream::cli
