// Whose something is, by name.
//
// Threading: any thread. Asks the system, which may ask a server.
#pragma once

#include <sys/types.h>

#include <string>

namespace slipstream::text {

// The number where it has no name.
std::string UserName(uid_t user);

}  // namespace slipstream::text
