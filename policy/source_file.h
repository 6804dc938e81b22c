// Reads a policy file, and refuses one that a stranger may have written.
//
// Who may have written it (S59): the file belongs to the user or to root, and not everybody may write it; nor its
//   folder, without the sticky bit, because everybody could put another file in its place; and a symbolic link that
//   leads to it belongs to the user or to root too. This is checked for the folder in the path and for the folder of
//   the resolved path, not for the folders above them. The checked file is the one that is read.
// Threading: no state.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/problem.h"

namespace slipstream::policy {

// The bytes of the file. Nothing where it is missing, unreadable, not a regular file, larger than `largest` bytes, or
// may be a stranger's; then every reason is appended to `problems`.
std::optional<std::string> ReadPolicyFile(const std::string& path, std::size_t largest, std::vector<Problem>& problems);

// What strerror says, in any thread.
std::string ErrorText(int error);

// The name as it stands, behind the working folder where it does not begin at the root.
std::string Absolute(const std::string& path);

}  // namespace slipstream::policy
