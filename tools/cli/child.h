// Becomes a command, or starts one.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace slipstream::cli {

// Replaces this process; returns only on failure, the errno.
int ExecCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment);

// A signal disposition in which children can be waited for, while it lives: an ignored SIGCHLD (inherited from some
// supervisors) would make the kernel reap them behind our back.
class WaitableChildren {
 public:
  WaitableChildren();
  ~WaitableChildren();
  WaitableChildren(const WaitableChildren&) = delete;
  WaitableChildren& operator=(const WaitableChildren&) = delete;

  const struct sigaction& before() const { return before_; }

 private:
  struct sigaction before_ {};
};

struct StartedCommand {
  pid_t pid = -1;       // not above 0: it did not start
  int start_errno = 0;  // why
};

// Starts the command, which dies with this process, with the signal mask `mask` and the disposition of SIGCHLD that
// `children` found. `prepare` is called in the new process; it may do what is allowed after a fork.
StartedCommand StartCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                            const sigset_t& mask, const WaitableChildren& children,
                            const std::function<void()>& prepare = {});

}  // namespace slipstream::cli
