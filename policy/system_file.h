// Reads a small file of the system (/proc, /sys).
//
// Threading: no state. The descriptor is open for the moment of the call, and no program that another thread executes
// meanwhile inherits it.
// Errors: a file that is not there, or cannot be read, is empty. May throw std::bad_alloc.
#pragma once

#include <string>

namespace slipstream::policy {

// At most 1 MiB of it.
std::string ReadSystemFile(const std::string& path);

}  // namespace slipstream::policy
