#include "tools/cli/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace slipstream::cli {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

using Exec = int(const char*, char* const*, char* const*);

// The C library's own. A `slipstream run` inside of another may itself be preloaded, and the hook of that name would
// keep the preload out of the command where the policy keeps it out of what the command starts (shim/exec.cpp).
Exec* RealExec() {
  Exec* real = nullptr;
  if (void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD)) {
    real = reinterpret_cast<Exec*>(dlsym(library, "execvpe"));
  }
  return real != nullptr ? real : execvpe;
}

[[noreturn]] void BecomeCommand(Exec* exec, char* const* arguments, char* const* environment, const sigset_t& mask,
                                pid_t parent, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // it died before the line above
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  exec(arguments[0], arguments, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(127);
}

}  // namespace

int ExecCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  RealExec()(command[0].c_str(), Pointers(command).data(), Pointers(environment).data());
  return errno;
}

WaitableChildren::WaitableChildren() {
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &default_action, &before_);
}

WaitableChildren::~WaitableChildren() { sigaction(SIGCHLD, &before_, nullptr); }

StartedCommand StartCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                            const sigset_t& mask, const WaitableChildren& children,
                            const std::function<void()>& prepare) {
  StartedCommand started;
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    started.start_errno = errno;
    return started;
  }
  Exec* const exec = RealExec();
  const pid_t parent = getpid();
  started.pid = fork();
  if (started.pid == 0) {
    sigaction(SIGCHLD, &children.before(), nullptr);
    if (prepare) prepare();
    BecomeCommand(exec, arguments.data(), variables.data(), mask, parent, report[1]);
  }
  const int fork_errno = errno;
  close(report[1]);
  if (started.pid < 0) {
    started.start_errno = fork_errno;
  } else {
    ssize_t got;
    do {
      got = read(report[0], &started.start_errno, sizeof(started.start_errno));
    } while (got < 0 && errno == EINTR);
    if (got != 0) {  // closed by a successful exec, with nothing written
      waitpid(started.pid, nullptr, 0);
      started.pid = -1;
    }
  }
  close(report[0]);
  return started;
}

}  // namespace slipstream::cli
