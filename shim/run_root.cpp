// Where the root of a run exits, it has the slipstream command end the run, and waits for it: the summary then stands
// behind all that the program wrote and before its end is seen, which a container whose first process it is would not
// outlive (S68). The root is the process that `slipstream run` became by its exec, whatever program it executes later.
//
// exit() and a return from main come here by on_exit, which is behind every handler of the program's and every
// destructor of its libraries'; _exit() by its hook, because shells such as dash end that way; and what kills itself by
// a signal, as Python and shells do behind a Ctrl-C, by the hooks of kill() and raise(). A root that closes standard
// error in a handler of its own, as timeout, xargs and other GNU tools do, lends the command the copy that is made when
// exit() begins: the C library runs the destructors of the thread before all handlers. A root that others kill, that
// crashes, or that executes a program without this library, ends its run by the watcher (tools/cli/watcher.h).
//
// Every other process compares one number, and a process outside of a run finds no variable.
//
// Threading: any thread, between vfork and exec and in a signal handler too. No allocation, no lock. The command runs
// as a process that nobody but us can wait for: it sends no SIGCHLD, and wait() without __WALL does not see it.
// Fails open: whatever does not work is left to the watcher. The exit status is the program's own in any case.
// Hazard: the program may write over its variables (setproctitle), so what is needed of them is copied in the
// beginning.

#include "shim/run_root.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <string_view>

#include "policy/environment.h"
#include "policy/run_variable.h"

// Has `function(object)` called when the calling thread ends, or first of all when it calls exit() or returns from
// main. `place` is any address of the library that `function` is in. 0: registered.
extern "C" [[gnu::visibility("default")]] int AtThreadEnd(void (*function)(void*), void* object, void* place) noexcept
    asm("__cxa_thread_atexit_impl");

// The C library's own, which `stdout` names until the program has put another stream there.
// NOLINTNEXTLINE(misc-non-copyable-objects): it is that object, and is not copied.
extern "C" [[gnu::visibility("default")]] FILE standard_output asm("_IO_2_1_stdout_");

namespace slipstream::shim {
namespace {

using Exit = void(int);
using Kill = int(pid_t, int);
using Raise = int(int);

constexpr int kKilled = 128;
constexpr size_t kStackBytes = size_t{32} << 10;  // of the child until its exec
constexpr size_t kStatBytes = 1024;               // /proc/PID/stat has less
constexpr char kLibraryPath[] = "LD_LIBRARY_PATH=";

struct Root {
  pid_t pid = 0;  // 0: this process is none
  uint64_t started = 0;
  char command[PATH_MAX];
  char directory[PATH_MAX];
  char libraries[PATH_MAX];  // LD_LIBRARY_PATH as the command had it, with its name; empty: it was not set
  std::atomic<bool> ended{false};
};
constinit Root g_root{};
constinit std::atomic<int> g_error_output{-1};  // standard error as it was when exit() began; -1: none
constinit std::atomic<Exit*> g_exit{nullptr};
constinit std::atomic<Kill*> g_kill{nullptr};
constinit std::atomic<Raise*> g_raise{nullptr};
alignas(64) constinit char g_stack[kStackBytes]{};

pid_t Self() { return static_cast<pid_t>(syscall(SYS_getpid)); }

bool Copy(std::string_view text, char (&place)[PATH_MAX]) {
  if (text.size() >= sizeof(place)) return false;
  std::memcpy(place, text.data(), text.size());
  place[text.size()] = '\0';
  return true;
}

// Whether this is the process that became the command, not one with its number in another PID namespace.
bool StartedThen() {
  if (g_root.started == 0) return true;
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  char text[kStatBytes];
  const ssize_t bytes = read(file, text, sizeof(text));
  close(file);
  return bytes <= 0 || policy::StartedOf({text, static_cast<size_t>(bytes)}) == g_root.started;
}

// As the kernel has it. The C library's sigaction may be somebody's who keeps a table of what was asked for, in memory
// that is still the program's.
struct KernelAction {
  uint64_t handler = 0;
  uint64_t flags = 0;
  uint64_t restorer = 0;
  uint64_t mask = 0;
};

// Has the parent's memory until the exec. `status` is the exit status, as text.
int BecomeCommand(void* status) {
  KernelAction action;
  for (int number = 1; number < NSIG; ++number) {
    // What the terminal or a limit sends must not cost the summary; a handler of the program's is none of the
    // command's.
    action.handler = number == SIGCHLD ? 0 : 1;  // SIG_DFL, SIG_IGN
    syscall(SYS_rt_sigaction, number, &action, nullptr, sizeof(action.mask));
  }
  const uint64_t none = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
  const int error_output = g_error_output.load(std::memory_order_relaxed);
  if (error_output >= 0 && syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) < 0) {
    syscall(SYS_dup3, error_output, STDERR_FILENO, 0);
  }
  char end[] = "end-of-run";
  char* const arguments[] = {g_root.command, end, g_root.directory, static_cast<char*>(status), nullptr};
  char* const variables[] = {g_root.libraries[0] != '\0' ? g_root.libraries : nullptr, nullptr};
  syscall(SYS_execve, g_root.command, arguments, variables);
  syscall(SYS_exit_group, 127);
  return 127;
}

// Puts what the program has written with stdio before what the command writes, as the C library is about to. A stream
// that the program has put in the place of its own may be gone by now.
void FlushOutput() {
  if (stdout != &standard_output || ftrylockfile(stdout) != 0) return;
  fflush_unlocked(stdout);
  funlockfile(stdout);
}

void End(int status) {
  if (g_root.pid == 0 || Self() != g_root.pid || g_root.ended.exchange(true) || !StartedThen()) return;
  const int error = errno;
  char text[16] = {};
  std::to_chars(text, text + sizeof(text) - 1, static_cast<unsigned>(status) & 0xFFU);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of the program's runs in the child
  const int command = clone(BecomeCommand, g_stack + kStackBytes, CLONE_VM | CLONE_VFORK, text);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  while (command > 0 && syscall(SYS_wait4, command, nullptr, __WALL, nullptr) < 0 && errno == EINTR) {
  }
  errno = error;
}

// One descriptor more until the process ends: a moment later, unless its main thread ended before the others. No
// program that a handler executes has it.
void KeepErrorOutput(void*) {
  if (g_root.pid == 0 || Self() != g_root.pid) return;
  g_error_output.store(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), std::memory_order_relaxed);
}

void AtExit(int status, void*) {
  if (g_root.pid == 0 || Self() != g_root.pid) return;
  FlushOutput();
  End(status);
}

// Not before the process's own variables can be read. Alone: the loader has one thread run it, before main.
[[gnu::constructor]] void KnowRoot() {
  const char* const text = policy::EnvironmentValue(policy::kRunVariable);
  if (text == nullptr) [[likely]]
    return;
  policy::RunRoot root;
  const char* const directory = policy::EnvironmentValue(policy::kRunDirectoryVariable);
  if (directory == nullptr || !policy::ParseRunRoot(text, &root) || root.pid != Self() ||
      policy::DisabledByEnvironment() || !Copy(root.command, g_root.command) || !Copy(directory, g_root.directory)) {
    return;
  }
  if (const char* const libraries = policy::EnvironmentValue("LD_LIBRARY_PATH")) {
    const size_t bytes = std::strlen(libraries);
    if (bytes + sizeof(kLibraryPath) > sizeof(g_root.libraries)) return;
    std::memcpy(g_root.libraries, kLibraryPath, sizeof(kLibraryPath) - 1);
    std::memcpy(g_root.libraries + sizeof(kLibraryPath) - 1, libraries, bytes + 1);
  }
  g_root.started = root.started;
  g_root.pid = static_cast<pid_t>(root.pid);
  if (on_exit(AtExit, nullptr) != 0) g_root.pid = 0;
  AtThreadEnd(KeepErrorOutput, nullptr, &g_root);  // fails: no summary where a handler closes standard error
}

// Whether the signal ends this process when the calling thread sends it. Where another thread takes a signal that this
// one has blocked, the run ends by the watcher; where one changes at that moment what the signal does, too early.
bool EndsBy(int number) {
  switch (number) {
    case SIGKILL:
      return g_root.pid != 1;
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return false;
    default:
      break;
  }
  // The first process of a container gets no signal that it does not handle (signal(7), pid_namespaces(7)).
  if (number <= 0 || number >= NSIG || g_root.pid == 1) return false;
  KernelAction action;
  uint64_t blocked = 0;
  if (syscall(SYS_rt_sigaction, number, nullptr, &action, sizeof(action.mask)) != 0 ||
      syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, sizeof(blocked)) != 0) {
    return false;
  }
  return action.handler == 0 && (blocked >> (static_cast<unsigned>(number) - 1U) & 1U) == 0;
}

// As a shell shows it.
void EndBy(int number) {
  if (g_root.pid == 0 || Self() != g_root.pid || !EndsBy(number)) return;
  End(kKilled + number);
}

[[noreturn]] void Leave(int status) {
  End(status);
  if (Exit* const real = g_exit.load(std::memory_order_relaxed)) real(status);
  while (true) syscall(SYS_exit_group, status);
}

}  // namespace

void LookUpExit() noexcept {
  g_exit.store(reinterpret_cast<Exit*>(dlsym(RTLD_NEXT, "_exit")), std::memory_order_relaxed);
  g_kill.store(reinterpret_cast<Kill*>(dlsym(RTLD_NEXT, "kill")), std::memory_order_relaxed);
  g_raise.store(reinterpret_cast<Raise*>(dlsym(RTLD_NEXT, "raise")), std::memory_order_relaxed);
}

}  // namespace slipstream::shim

extern "C" [[gnu::visibility("default")]] void _exit(int status) { slipstream::shim::Leave(status); }
extern "C" [[gnu::visibility("default")]] void _Exit(int status) noexcept { slipstream::shim::Leave(status); }

extern "C" [[gnu::visibility("default")]] int kill(pid_t pid, int number) noexcept {
  namespace shim = slipstream::shim;
  if (pid > 0 && pid == shim::g_root.pid) shim::EndBy(number);
  if (shim::Kill* const real = shim::g_kill.load(std::memory_order_relaxed)) return real(pid, number);
  return static_cast<int>(syscall(SYS_kill, pid, number));
}

extern "C" [[gnu::visibility("default")]] int raise(int number) noexcept {
  namespace shim = slipstream::shim;
  shim::EndBy(number);
  if (shim::Raise* const real = shim::g_raise.load(std::memory_order_relaxed)) return real(number);
  return static_cast<int>(syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), number));
}
