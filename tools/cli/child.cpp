#include "tools/cli/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace slipstream::cli {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Signals that are about this process itself, not messages for the command.
bool IsOurOwn(int signal_number) {
  switch (signal_number) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT:
    case SIGTTIN:
    case SIGTTOU:
    case SIGPIPE:
      return true;
    default:
      return false;
  }
}

sigset_t SignalsToWatch() {
  sigset_t signals;
  sigfillset(&signals);
  for (int number = 1; number < NSIG; ++number) {
    if (IsOurOwn(number)) sigdelset(&signals, number);
  }
  return signals;
}

// From the terminal: the kernel sent it to the whole foreground process group, the command included.
bool CameFromTerminal(const siginfo_t& info) {
  return info.si_code == SI_KERNEL &&
         (info.si_signo == SIGINT || info.si_signo == SIGQUIT || info.si_signo == SIGTSTP || info.si_signo == SIGHUP ||
          info.si_signo == SIGWINCH);
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

// Waits until the command has ended, passing signals on.
int Supervise(pid_t child, const sigset_t& watched) {
  while (true) {
    siginfo_t info;
    const int number = sigwaitinfo(&watched, &info);
    if (number < 0) continue;  // EINTR: a signal that is not watched
    if (number == SIGCHLD) {
      int status = 0;
      const pid_t changed = waitpid(child, &status, WNOHANG | WUNTRACED);
      if (changed != child) continue;
      if (!WIFSTOPPED(status)) return status;
      raise(SIGSTOP);  // as the shell expects of the job it started; whoever continues us continues the command
      kill(child, SIGCONT);
    } else if (!CameFromTerminal(info)) {
      kill(child, number);
    }
  }
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

ChildResult RunCommand(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  ChildResult result;
  const sigset_t watched = SignalsToWatch();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  {
    const WaitableChildren children;
    const StartedCommand started = StartCommand(command, environment, before, children);
    result.started = started.pid > 0;
    result.start_errno = started.start_errno;
    if (result.started) result.wait_status = Supervise(started.pid, watched);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return result;
}

void EndAs(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const rlimit no_core = {0, 0};  // the command has left its own core
    setrlimit(RLIMIT_CORE, &no_core);
    struct sigaction default_action {};
    default_action.sa_handler = SIG_DFL;
    sigaction(number, &default_action, nullptr);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(number);
    _exit(128 + number);
  }
  _exit(WEXITSTATUS(wait_status));
}

}  // namespace slipstream::cli
