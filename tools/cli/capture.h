// Runs a short command and keeps what it prints.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

struct Captured {
  int exit_status = -1;  // as a shell shows it; 127: not found; 124: killed after the time limit
  std::string output;    // standard output and error together
};

// No standard input. The command and what it left in its process group are killed after `seconds`.
Captured Capture(const std::vector<std::string>& command, const std::vector<std::string>& environment, int seconds);

}  // namespace slipstream::cli
