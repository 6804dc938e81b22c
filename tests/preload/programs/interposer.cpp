// Another library that people preload: wraps cudaMalloc, hands it on, says at exit how often it was called. What it
// hands it on to is behind it (RTLD_NEXT), or in the library that INTERPOSER_ASKS names.

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

int g_calls = 0;

void* Next() {
  const char* const library = std::getenv("INTERPOSER_ASKS");
  void* volatile next = dlsym(library != nullptr ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : RTLD_NEXT, "cudaMalloc");
  return next;  // not the last thing: this library asks
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int cudaMalloc(void** pointer, size_t size) {
  ++g_calls;
  return reinterpret_cast<int (*)(void**, size_t)>(Next())(pointer, size);
}

[[gnu::destructor]] static void Report() {
  if (g_calls != 0) dprintf(STDOUT_FILENO, "interposer: %d\n", g_calls);
}
