// Words of a command line, to be pasted into a shell.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

namespace slipstream::text {

// As bash, zsh and ksh read it; nothing in it that no terminal should be sent.
std::string InShell(const std::string& word);

// All of them, a space between each two.
std::string InShell(const std::vector<std::string>& words);

}  // namespace slipstream::text
