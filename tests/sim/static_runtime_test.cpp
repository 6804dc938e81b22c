// The static runtime: its own last error, its own counts, the same driver underneath, and nothing exported.
#include <dlfcn.h>

#include "tests/sim/sim_test.h"

extern "C" int StaticLibraryLaunch(const void* function, void** args, cudaStream_t stream);
extern "C" int StaticLibraryLastError();

namespace simtest {
namespace {

using StaticRuntimeTest = Sim;

TEST_F(StaticRuntimeTest, LaunchesOnTheSameDeviceUnseen) {
  simResetCounts();
  Log log;
  Log* pointer = &log;
  int what = 1;
  void* args[] = {&pointer, &what};
  OK(StaticLibraryLaunch(Address(&Append), args, a_));
  OK(LaunchAppend(&log, 2, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(log.entries, (std::vector<int>{1, 2}));
  EXPECT_EQ(simCallCountIn("libcudart.so.13", "cudaLaunchKernel"), 1u);
  EXPECT_EQ(simCallCountIn("libcudart_static.a", "cudaLaunchKernel"), 1u);
}

TEST_F(StaticRuntimeTest, HasItsOwnLastError) {
  RETURNS(cudaErrorInvalidDeviceFunction, StaticLibraryLaunch(this, nullptr, a_));
  RETURNS(cudaSuccess, cudaGetLastError());
  RETURNS(cudaErrorInvalidDeviceFunction, StaticLibraryLastError());
}

TEST_F(StaticRuntimeTest, ExportsNoCudaName) {
  Dl_info where = {};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&StaticLibraryLaunch), &where), 0);
  void* library = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  void* found =
      dlsym(library, "cudaLaunchKernel");  // searches its dependencies too: only a copy of its own would be wrong
  Dl_info owner = {};
  if (found != nullptr && dladdr(found, &owner) != 0) {
    EXPECT_STRNE(owner.dli_fname, where.dli_fname);
  }
  dlclose(library);
}

}  // namespace
}  // namespace simtest
