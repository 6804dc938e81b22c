// Another library that people preload: wraps cuMemAlloc_v2 for those who are linked to it and for those who look it up,
// hands it on, and says at exit how often it was called. What it hands it on to is behind it (RTLD_NEXT), or in the
// library that INTERPOSER_ASKS names.

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

int g_calls = 0;

void* Next() {
  const char* const library = std::getenv("INTERPOSER_ASKS");
  void* volatile next = dlsym(library != nullptr ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : RTLD_NEXT, "cuMemAlloc_v2");
  return next;  // not the last thing: this library asks
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  ++g_calls;
  return reinterpret_cast<int (*)(unsigned long long*, size_t)>(Next())(address, bytes);
}

[[gnu::destructor]] static void Report() { dprintf(STDOUT_FILENO, "interposer: %d\n", g_calls); }
