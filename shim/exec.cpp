// exec and posix_spawn of the C library: a program that the policy's [children] keeps the preload out of gets an
// environment without it (policy/children.h). Where the environment that is passed on has no such policy in it, a hook
// is a straight call of the real function.
//
// Threading: any thread, between fork or vfork and exec too, and in a signal handler. No allocation, no lock but the
//   loader's at the first call of all (shim/exec.h), no cancellation point that the real function is not. errno is as
//   it was when the real function begins.
// Hazard: a child of vfork has its parent's memory. What is larger than a few words, a pointer for each variable, the
// text of LD_PRELOAD, a path, lies on pages of the thread's own (ExecRoom), not on the stack: that may be a signal
// handler's of 8 KiB, or a thread's of 16. The thread keeps them.
// Fails open: what does not fit there is passed on as it is.
// Not seen: system() and popen(), and the shell that execvp runs a script without a first line by, are calls inside the
// C library. Such a shell keeps the preload, and what it starts is seen.

#include "shim/exec.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <new>

#include "policy/children.h"
#include "policy/environment.h"
#include "policy/program_file.h"
#include "policy/thread_owned.h"

namespace slipstream::shim {
namespace {

using policy::ProgramPath;

using Arguments = char* const*;
using Variables = char* const*;
using Exec = int(const char*, Arguments, Variables);
using ExecAt = int(int, const char*, Arguments, Variables, int);
using ExecDescriptor = int(int, Arguments, Variables);
using ExecHere = int(const char*, Arguments);
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, Arguments,
                  Variables);

// What a hook needs while it calls the real function. Not initialized: most of it is never touched.
struct ExecRoom {
  // More variables than this are passed on as they are, and so is more text in LD_PRELOAD.
  static constexpr std::size_t kMostVariables = 4096;
  static constexpr std::size_t kMostText = 4096;

  ExecRoom() noexcept {}  // NOLINT(cppcoreguidelines-pro-type-member-init,modernize-use-equals-default)

  pid_t user = 0;  // the process whose hook is using it; 0: none
  policy::ProgramPath program;
  char head[policy::kProgramHeadBytes];
  char* entries[kMostVariables];
  char text[kMostText];
};

// The calling thread's, for as long as this lives; null where there is no memory, or where a hook that a signal has
// interrupted uses it: that is one of this process's or, in a child, of its parent's. Any other user is a child of
// vfork that has become its program since, and has left this behind.
class ExecRoomHere {
 public:
  ExecRoomHere() noexcept : room_(policy::ThreadOwned<ExecRoom>::Get()) {
    if (room_ == nullptr) return;
    const auto self = static_cast<pid_t>(syscall(SYS_getpid));
    if (room_->user == self || (room_->user != 0 && room_->user == static_cast<pid_t>(syscall(SYS_getppid)))) {
      room_ = nullptr;
      return;
    }
    room_->user = self;
  }
  ~ExecRoomHere() {
    if (room_ != nullptr) room_->user = 0;
  }
  ExecRoomHere(const ExecRoomHere&) = delete;
  ExecRoomHere& operator=(const ExecRoomHere&) = delete;

  ExecRoom* get() const { return room_; }

 private:
  ExecRoom* room_;
};

// What the loader would have bound without us. execl and the like are made of these, as in the C library.
struct Real {
  std::atomic<Exec*> execve{nullptr};
  std::atomic<Exec*> execvpe{nullptr};
  std::atomic<ExecHere*> execv{nullptr};
  std::atomic<ExecHere*> execvp{nullptr};
  std::atomic<ExecAt*> execveat{nullptr};
  std::atomic<ExecDescriptor*> fexecve{nullptr};
  std::atomic<Spawn*> posix_spawn{nullptr};
  std::atomic<Spawn*> posix_spawnp{nullptr};
};
constinit Real g_real;

template <typename Function>
void Find(std::atomic<Function*>& slot, const char* name) {
  slot.store(reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name)), std::memory_order_relaxed);
}

template <typename Function>
Function* Bound(const std::atomic<Function*>& slot) {
  if (Function* const real = slot.load(std::memory_order_relaxed)) [[likely]]
    return real;
  LookUpExec();
  return slot.load(std::memory_order_relaxed);
}

// Calls of the real function; a C library that lacks one answers as a kernel would.
template <typename Function, typename... Values>
int Call(const std::atomic<Function*>& slot, Values... values) {
  if (Function* const real = Bound(slot)) [[likely]]
    return real(values...);
  errno = ENOSYS;
  return -1;
}

// posix_spawn returns its error.
template <typename... Values>
int CallSpawn(const std::atomic<Spawn*>& slot, Values... values) {
  if (Spawn* const real = Bound(slot)) [[likely]]
    return real(values...);
  return ENOSYS;
}

// Whether the program is to have what `variables` has.
template <typename Locate>
bool KeepsPreload(const policy::ChildrenRule& rule, const Locate& locate, ExecRoom* room) {
  ProgramPath& program = *new (&room->program) ProgramPath();
  locate(program);
  if (!program.readable()) return true;
  const policy::Keeps keeps = policy::MayKeep(rule, program.view());
  if (keeps != policy::Keeps::kByContent) return keeps == policy::Keeps::kYes;
  return policy::KeepsByContent(program.Head(room->head));
}

// What the program gets. Not inlined: its frame is off the stack before the real function begins.
template <typename Locate>
[[gnu::noinline]] Variables Passed(Variables variables, const char* text, const Locate& locate, ExecRoom* room) {
  policy::ChildrenRule rule;
  if (!policy::ParseChildren(text, &rule) || policy::DisabledIn(variables) || KeepsPreload(rule, locate, room)) {
    return variables;
  }
  return policy::WithoutPreload(variables, rule.library, room->entries, room->text) ? room->entries : variables;
}

// Calls `call` with the variables that the program gets. `locate` fills in a ProgramPath, where that is asked for.
template <typename Locate, typename Use>
int WithVariables(Variables variables, const Locate& locate, const Use& call) {
  const char* const text = policy::ValueIn(variables, policy::kChildrenVariable);
  if (text == nullptr) [[likely]]
    return call(variables);
  const int error = errno;
  const ExecRoomHere room;
  Variables const passed = room.get() != nullptr ? Passed(variables, text, locate, room.get()) : variables;
  errno = error;
  return call(passed);
}

auto AtPath(const char* path) {
  return [path](ProgramPath& program) { program.FromPath(path); };
}

auto InSearch(const char* name) {
  return [name](ProgramPath& program) { program.FromSearch(name, policy::EnvironmentValue("PATH")); };
}

int Execve(const char* path, Arguments arguments, Variables variables) {
  return WithVariables(variables, AtPath(path),
                       [=](Variables passed) { return Call(g_real.execve, path, arguments, passed); });
}

int Execvpe(const char* name, Arguments arguments, Variables variables) {
  return WithVariables(variables, InSearch(name),
                       [=](Variables passed) { return Call(g_real.execvpe, name, arguments, passed); });
}

// Where the program gets the process's own variables as they are, it is the real function without variables that is
// called.
int Execv(const char* path, Arguments arguments) {
  Variables const own = policy::ProcessVariables();
  return WithVariables(own, AtPath(path), [=](Variables passed) {
    return passed == own ? Call(g_real.execv, path, arguments) : Call(g_real.execve, path, arguments, passed);
  });
}

int Execvp(const char* name, Arguments arguments) {
  Variables const own = policy::ProcessVariables();
  return WithVariables(own, InSearch(name), [=](Variables passed) {
    return passed == own ? Call(g_real.execvp, name, arguments) : Call(g_real.execvpe, name, arguments, passed);
  });
}

}  // namespace

void LookUpExec() noexcept {
  Find(g_real.execve, "execve");
  Find(g_real.execvpe, "execvpe");
  Find(g_real.execv, "execv");
  Find(g_real.execvp, "execvp");
  Find(g_real.execveat, "execveat");
  Find(g_real.fexecve, "fexecve");
  Find(g_real.posix_spawn, "posix_spawn");
  Find(g_real.posix_spawnp, "posix_spawnp");
}

}  // namespace slipstream::shim

using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file

#define SLIPSTREAM_EXPORT extern "C" [[gnu::visibility("default")]]

// The C library's headers say noexcept (a __THROW) of all but posix_spawn; a hook that differed would not be the same
// function.
SLIPSTREAM_EXPORT int execve(const char* path, Arguments arguments, Variables variables) noexcept {
  return Execve(path, arguments, variables);
}

SLIPSTREAM_EXPORT int execvpe(const char* name, Arguments arguments, Variables variables) noexcept {
  return Execvpe(name, arguments, variables);
}

SLIPSTREAM_EXPORT int execv(const char* path, Arguments arguments) noexcept { return Execv(path, arguments); }

SLIPSTREAM_EXPORT int execvp(const char* name, Arguments arguments) noexcept { return Execvp(name, arguments); }

SLIPSTREAM_EXPORT int execveat(int directory, const char* path, Arguments arguments, Variables variables,
                               int flags) noexcept {
  return WithVariables(
      variables, [=](ProgramPath& program) { program.FromDescriptor(directory, path); },
      [=](Variables passed) { return Call(g_real.execveat, directory, path, arguments, passed, flags); });
}

SLIPSTREAM_EXPORT int fexecve(int descriptor, Arguments arguments, Variables variables) noexcept {
  return WithVariables(
      variables, [=](ProgramPath& program) { program.FromDescriptor(descriptor, nullptr); },
      [=](Variables passed) { return Call(g_real.fexecve, descriptor, arguments, passed); });
}

SLIPSTREAM_EXPORT int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                                  const posix_spawnattr_t* attributes, Arguments arguments, Variables variables) {
  return WithVariables(variables, AtPath(path), [=](Variables passed) {
    return CallSpawn(g_real.posix_spawn, pid, path, actions, attributes, arguments, passed);
  });
}

SLIPSTREAM_EXPORT int posix_spawnp(pid_t* pid, const char* name, const posix_spawn_file_actions_t* actions,
                                   const posix_spawnattr_t* attributes, Arguments arguments, Variables variables) {
  return WithVariables(variables, InSearch(name), [=](Variables passed) {
    return CallSpawn(g_real.posix_spawnp, pid, name, actions, attributes, arguments, passed);
  });
}

// NOLINTBEGIN(clang-analyzer-valist.Uninitialized): it does not see that va_start begins the list

// The arguments of these stand in the call itself, and become an array on the stack, as in the C library. `list` is
// then behind the null.
#define SLIPSTREAM_GATHER(arguments, list, first)                                              \
  va_list list;                                                                                \
  va_start(list, first);                                                                       \
  std::size_t count = 0;                                                                       \
  for (const char* one = first; one != nullptr; one = va_arg(list, const char*)) ++count;      \
  va_end(list);                                                                                \
  if (count >= INT_MAX) {                                                                      \
    errno = E2BIG;                                                                             \
    return -1;                                                                                 \
  }                                                                                            \
  auto** const arguments = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  va_start(list, first);                                                                       \
  arguments[0] = const_cast<char*>(first);                                                     \
  for (std::size_t i = 0; i < count; ++i) arguments[i + 1] = va_arg(list, char*)

SLIPSTREAM_EXPORT int execl(const char* path, const char* first, ...) noexcept {
  SLIPSTREAM_GATHER(arguments, list, first);
  va_end(list);
  return Execv(path, arguments);
}

SLIPSTREAM_EXPORT int execlp(const char* name, const char* first, ...) noexcept {
  SLIPSTREAM_GATHER(arguments, list, first);
  va_end(list);
  return Execvp(name, arguments);
}

SLIPSTREAM_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  SLIPSTREAM_GATHER(arguments, list, first);
  Variables const variables = va_arg(list, Variables);
  va_end(list);
  return Execve(path, arguments, variables);
}

// NOLINTEND(clang-analyzer-valist.Uninitialized)
