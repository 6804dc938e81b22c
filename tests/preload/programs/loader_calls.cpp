// Preloaded beside the library under test: counts how often anybody asks the dynamic linker about an address or a name,
// and says so at exit. Such a question costs microseconds and takes the loader's lock.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {
std::atomic<int> g_questions{0};

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
}  // namespace

extern "C" [[gnu::visibility("default")]] int dladdr1(const void* address, Dl_info* info, void** extra, int flags) {
  g_questions.fetch_add(1);
  return Next<decltype(::dladdr1)>("dladdr1")(address, info, extra, flags);
}

extern "C" [[gnu::visibility("default")]] int dl_iterate_phdr(int (*callback)(dl_phdr_info*, size_t, void*),
                                                              void* data) {
  g_questions.fetch_add(1);
  return Next<decltype(::dl_iterate_phdr)>("dl_iterate_phdr")(callback, data);
}

[[gnu::destructor]] static void Report() { dprintf(STDERR_FILENO, "loader questions: %d\n", g_questions.load()); }
