// Another library that people preload: wraps cudaMalloc, hands it on, says at exit how often it was called. What it
// hands it on to is behind it (RTLD_NEXT), or in the library that INTERPOSER_ASKS names. Where INTERPOSER_SIGNALS is
// set, a signal comes in inside of its posix_spawn, once. Where INTERPOSER_THROWS is, every other cudaMalloc throws.

#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace {

int g_calls = 0;

void* Next() {
  const char* const library = std::getenv("INTERPOSER_ASKS");
  void* volatile next = dlsym(library != nullptr ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : RTLD_NEXT, "cudaMalloc");
  return next;  // not the last thing: this library asks
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int cudaMalloc(void** pointer, size_t size) {
  static const bool throws = std::getenv("INTERPOSER_THROWS") != nullptr;
  if (++g_calls % 2 == 1 && throws) throw std::runtime_error("refused by the interposer");
  return reinterpret_cast<int (*)(void**, size_t)>(Next())(pointer, size);
}

extern "C" [[gnu::visibility("default")]] int posix_spawn(pid_t* pid, const char* path,
                                                          const posix_spawn_file_actions_t* actions,
                                                          const posix_spawnattr_t* attributes, char* const* arguments,
                                                          char* const* variables) {
  // Before the signal: in its handler the loader may not be asked.
  static const auto next = reinterpret_cast<decltype(&posix_spawn)>(dlsym(RTLD_NEXT, "posix_spawn"));
  static bool signaled = false;
  if (std::getenv("INTERPOSER_SIGNALS") != nullptr && !signaled) {
    signaled = true;
    raise(SIGUSR2);
  }
  return next(pid, path, actions, attributes, arguments, variables);
}

[[gnu::destructor]] static void Report() {
  if (g_calls != 0) dprintf(STDOUT_FILENO, "interposer: %d\n", g_calls);
}
