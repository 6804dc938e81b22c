// Runs a short command and keeps what it prints.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace slipstream::cli {

struct Captured {
  int exit_status = -1;  // as a shell shows it; 127: not found; 124: killed after the time limit, or because of `stop`
  std::string output;    // standard output and error together
};

// No standard input. The command and what it left in its process group are killed after `seconds`, and soon after
// `stop` becomes true, which a signal handler may do; null: nothing but time stops it.
Captured Capture(const std::vector<std::string>& command, const std::vector<std::string>& environment, int seconds,
                 const std::atomic<bool>* stop = nullptr);

}  // namespace slipstream::cli
