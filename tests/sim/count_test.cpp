// The simulator's own count of calls, which other counts are compared with.
#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using CountTest = Sim;

TEST_F(CountTest, CallsFromOutsideAreCountedOnceAndUnderTheirName) {
  simResetCounts();
  void* block = nullptr;
  OK(cudaMalloc(&block, 16));
  OK(cudaMemcpyAsync(block, pinned_, 16, cudaMemcpyHostToDevice, a_));
  OK(LaunchFill(device_, 1, 1, a_));
  OK(cudaFree(block));
  EXPECT_EQ(simCallCount("cudaMalloc"), 1u);
  EXPECT_EQ(simCallCount("cudaMemcpyAsync"), 1u);
  EXPECT_EQ(simCallCount("cudaLaunchKernel"), 1u);
  EXPECT_EQ(simCallCount("cudaFree"), 1u);
  EXPECT_EQ(simCallCount("cuMemAlloc_v2"), 0u);  // the runtime's own
  EXPECT_EQ(simCallCountIn("libcudart.so.13", "cudaMalloc"), 1u);
  EXPECT_EQ(simCallCountIn("libcudart.so.12", "cudaMalloc"), 0u);
  CUdeviceptr direct = 0;
  OK(cuMemAlloc(&direct, 16));
  EXPECT_EQ(simCallCount("cuMemAlloc_v2"), 1u);
  EXPECT_EQ(simCallCountIn("libcuda.so.1", "cuMemAlloc_v2"), 1u);
}

TEST_F(CountTest, UnseenLaunchesCountAsKernelsOnly) {
  simResetCounts();
  const uint64_t before = simKernelCount();
  Log log;
  Log* pointer = &log;
  int what = 1;
  void* args[] = {&pointer, &what};
  OK(simLaunchUnseen(Address(&Append), 1, 1, args, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(simKernelCount() - before, 1u);
  EXPECT_EQ(simCallCount("cudaLaunchKernel") + simCallCount("cuLaunchKernel"), 0u);
}

}  // namespace
}  // namespace simtest
