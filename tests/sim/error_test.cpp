// Errors: sticky and not, the last error, refusals, failures on demand.
#include <thread>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using ErrorTest = Sim;

TEST_F(ErrorTest, AFaultBreaksTheContextForGood) {
  OK(cudaLaunchKernel(Address(&Crash), dim3(1), dim3(1), nullptr, 0, a_));
  Log log;
  OK(LaunchAppend(&log, 1, a_));  // asynchronous: nobody knows yet
  RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
  EXPECT_TRUE(log.entries.empty());
  void* block = nullptr;
  RETURNS(cudaErrorIllegalAddress, cudaMalloc(&block, 16));
  RETURNS(cudaErrorIllegalAddress, cudaGetLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
  RETURNS(cudaErrorIllegalAddress, cudaStreamQuery(b_));  // sticky: the next call has it again
  OK(cudaSetDevice(1));
  RETURNS(cudaSuccess, cudaMalloc(&block, 16));  // the other device is well
}

TEST_F(ErrorTest, TheLastErrorIsTheThreadsOwn) {
  RETURNS(cudaErrorInvalidValue, cudaFree(device_ + 1));
  std::thread([] { RETURNS(cudaSuccess, cudaPeekAtLastError()); }).join();
  RETURNS(cudaErrorInvalidValue, cudaPeekAtLastError());
  OK(cudaStreamSynchronize(a_));  // a success does not clear it
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  RETURNS(cudaSuccess, cudaPeekAtLastError());
}

TEST_F(ErrorTest, NotReadyIsNoLastError) {
  OK(LaunchFill(device_, kBytes, 1, a_));
  RETURNS(cudaErrorNotReady, cudaStreamQuery(a_));
  RETURNS(cudaSuccess, cudaGetLastError());
}

TEST_F(ErrorTest, DriverCallsLeaveTheLastErrorAlone) {
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemFree(1234));
  RETURNS(cudaSuccess, cudaGetLastError());
}

TEST_F(ErrorTest, UnregisteredKernelsAndBadShapes) {
  RETURNS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(this, dim3(1), dim3(1), nullptr, 0, a_));
  Log log;
  Log* pointer = &log;
  int what = 1;
  void* args[] = {&pointer, &what};
  RETURNS(cudaErrorInvalidConfiguration, cudaLaunchKernel(Address(&Append), dim3(0), dim3(1), args, 0, a_));
  RETURNS(cudaErrorInvalidConfiguration, cudaLaunchKernel(Address(&Append), dim3(1), dim3(2048), args, 0, a_));
}

TEST_F(ErrorTest, ArgumentsAreCopiedAtTheLaunch) {
  Log log;
  Log* pointer = &log;
  int what = 1;
  void* args[] = {&pointer, &what};
  OK(cudaLaunchKernel(Address(&Append), dim3(1), dim3(1), args, 0, a_));
  what = 2;
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(log.entries, std::vector<int>{1});
}

TEST_F(ErrorTest, TheNthCallFailsOnDemand) {
  OK(simFailCall("cudaMalloc", cudaErrorMemoryAllocation, 2, 0));
  OK(simFailCall("cuStreamSynchronize", CUDA_ERROR_LAUNCH_FAILED, 1, 1));
  void* block = nullptr;
  RETURNS(cudaSuccess, cudaMalloc(&block, 16));
  RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&block, 16));
  RETURNS(cudaErrorMemoryAllocation, cudaGetLastError());
  RETURNS(cudaSuccess, cudaMalloc(&block, 16));
  RETURNS(cudaErrorLaunchFailure, cudaStreamSynchronize(a_));  // the runtime's own call of the driver fails
  RETURNS(cudaErrorLaunchFailure, cudaStreamSynchronize(a_));
  simClearFailures();
  RETURNS(cudaSuccess, cudaStreamSynchronize(a_));
}

struct Inside {
  int malloc = -1;
  int query = -1;
  int count = -1;
  std::thread::id thread;
};

TEST_F(ErrorTest, HostFunctionsRunElsewhereAndMustNotCallCuda) {
  Inside inside;
  OK(cudaLaunchHostFunc(
      a_,
      [](void* data) {
        auto* seen = static_cast<Inside*>(data);
        void* block = nullptr;
        int count = 0;
        seen->malloc = cudaMalloc(&block, 16);
        seen->query = cudaStreamQuery(nullptr);
        seen->count = cudaGetDeviceCount(&count);
        seen->thread = std::this_thread::get_id();
      },
      &inside));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(inside.malloc, cudaErrorNotPermitted);
  EXPECT_EQ(inside.query, cudaErrorNotPermitted);
  EXPECT_EQ(inside.count, cudaSuccess);
  EXPECT_NE(inside.thread, std::this_thread::get_id());
}

TEST_F(ErrorTest, NamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorNoKernelImageForDevice),
               "no kernel image is available for execution on the device");
  const char* name = nullptr;
  OK(cuGetErrorName(CUDA_ERROR_NOT_READY, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_NOT_READY");
}

// Which calls are slipstream's is seen by where they come from; none of a program's is.
TEST_F(ErrorTest, FailuresOfSlipstreamsOwnCallsAreNotTheProgramsOwn) {
  OK(simFailCall("own:cudaMalloc", cudaErrorMemoryAllocation, 1, 1));
  OK(simFailCall("own:cuMemAlloc_v2", cudaErrorMemoryAllocation, 1, 1));
  void* block = nullptr;
  OK(cudaMalloc(&block, 16));
  CUdeviceptr direct = 0;
  OK(cuMemAlloc(&direct, 16));
  OK(simFailCall("cuMemAlloc_v2", cudaErrorMemoryAllocation, 1, 1));
  RETURNS(cudaErrorMemoryAllocation, cuMemAlloc(&direct, 16));
}

}  // namespace
}  // namespace simtest
