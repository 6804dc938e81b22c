// Another library that people preload: wraps cudaMalloc, hands it on with RTLD_NEXT, says at exit how
// often it was called.

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace {
int g_calls = 0;
}

extern "C" [[gnu::visibility("default")]] int cudaMalloc(void** pointer, size_t size) {
  ++g_calls;
  auto* const next = reinterpret_cast<int (*)(void**, size_t)>(dlsym(RTLD_NEXT, "cudaMalloc"));
  return next(pointer, size);
}

[[gnu::destructor]] static void Report() {
  if (g_calls != 0) dprintf(STDOUT_FILENO, "interposer: %d\n", g_calls);
}
