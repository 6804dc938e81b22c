// Another library that people preload: wraps cuMemAlloc_v2 for those who are linked to it and for those who look it up,
// hands it on with RTLD_NEXT, and says at exit how often it was called.

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {
int g_calls = 0;
}

extern "C" [[gnu::visibility("default")]] int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  ++g_calls;
  auto* const next = reinterpret_cast<int (*)(unsigned long long*, size_t)>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  return next(address, bytes);
}

[[gnu::destructor]] static void Report() { dprintf(STDOUT_FILENO, "interposer: %d\n", g_calls); }
