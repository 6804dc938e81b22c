// Every function of the hook table is exported by the runtimes that are said to have it, under the real symbol version,
// and by no other: a hook must find here what it finds on a real machine.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace {

enum Runtimes { kCuda12 = 1, kCuda13 = 2, kBoth = 3 };
struct Row {
  const char* function;
  Runtimes runtimes;
};
constexpr Row kRows[] = {
#define HOOK(group, function, parameters, arguments, detail) {#function, kBoth},
#define HOOK_SINCE13(group, function, parameters, arguments, detail) {#function, kCuda13},
#define HOOK_WORDS(group, function, words, runtimes, detail) {#function, runtimes},
#define HOOK_CUSTOM(group, function, runtimes) {#function, runtimes},
#include "shim/hooks.def"
};

void Check(const char* library, Runtimes which) {
  void* handle = dlopen((std::string(SIM_DIR "/") + library).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  int wanted = 0;
  for (const Row& row : kRows) {
    const bool expected = (row.runtimes & which) != 0;
    wanted += expected ? 1 : 0;
    EXPECT_EQ(dlvsym(handle, row.function, library) != nullptr, expected) << library << " " << row.function;
  }
  EXPECT_GT(wanted, 200);
  // Nothing internal leaks: a second copy in the process must not bind to this one.
  EXPECT_EQ(dlsym(handle, "_ZN5simrt13EnsureContextEv"), nullptr);
  dlclose(handle);
}

TEST(ExportsTest, Libcudart13) { Check("libcudart.so.13", kCuda13); }
TEST(ExportsTest, Libcudart12) { Check("libcudart.so.12", kCuda12); }

TEST(ExportsTest, LibcudaHasLegacyAndVersionedNames) {
  void* handle = dlopen(SIM_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  for (const char* name :
       {"cuInit", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyAsync",
        "cuMemcpyAsync_ptsz", "cuCtxRecordEvent", "cuCtxWaitEvent", "cuGetProcAddress_v2", "cuGetProcAddress",
        "cuGraphLaunch_ptsz", "cuCtxGetCurrent", "cuMemCreate"}) {
    EXPECT_NE(dlsym(handle, name), nullptr) << name;
  }
}

}  // namespace
