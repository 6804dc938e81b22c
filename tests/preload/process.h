// Runs real programs for the tests of this folder and keeps what they did.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace slipstream::test {

struct Finished {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

using Variables = std::map<std::string, std::string>;

// Runs the command with this process's variables, changed by `variables` (an empty value removes one) and so that no
// policy of this machine's is found, standard input from `input`. Killed after `limit` (then status is 137).
Finished RunProgram(const std::vector<std::string>& command, const Variables& variables = {},
                    const std::string& input = "", std::chrono::seconds limit = std::chrono::minutes(2));

// LD_PRELOAD for the library, with the sanitiser runtime in front where this build has one.
Variables Preload(const std::string& library);

// A new empty directory, removed with all that is in it at the end of the test program.
std::string NewDirectory();

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

// Names in a directory, sorted.
std::vector<std::string> NamesIn(const std::string& directory);

}  // namespace slipstream::test
