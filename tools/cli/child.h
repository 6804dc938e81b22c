// Runs a command as if nothing stood between it and the shell.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

struct ChildResult {
  bool started = false;
  int start_errno = 0;  // why it did not start: ENOENT, EACCES, ...
  int wait_status = 0;  // as waitpid gives it
};

// Replaces this process; returns only on failure, the errno.
int ExecCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment);

// Starts the command and waits for it. Signals that this process gets meanwhile go to the command, except those that
// the terminal has already given to the whole foreground group; a command that is stopped stops this process too, and
// goes on with it. When this process is killed, so is the command, as the bare command would have been. Threading: call
// from a process with one thread; it changes the signal mask and puts it back.
ChildResult RunCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment);

// Ends this process the way the command ended: with its status, or by the same signal.
[[noreturn]] void EndAs(int wait_status);

}  // namespace slipstream::cli
