// Reading the policy file, and refusing one that a stranger may have written.
//
// Threading: no state.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/problem.h"

namespace slipstream::policy {

// The bytes of the file. Nothing where it is missing, unreadable, not a regular file, larger than `largest` bytes, or
// writable by everybody (load.h says what that means); then every reason is appended to `problems`.
std::optional<std::string> ReadPolicyFile(const std::string& path, std::size_t largest, std::vector<Problem>& problems);

}  // namespace slipstream::policy
