// Kernels that the compiler's start-up code registers: their device code is in a fat binary, which nothing here runs.
#include "tests/sim/sim_test.h"

// crt/host_runtime.h declares these for the compiler only.
extern "C" {
void** __cudaRegisterFatBinary(void* fat_binary);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int threads, uint3*,
                            uint3*, dim3*, dim3*, int*);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream);
}

namespace simtest {
namespace {

void Compiled() {}
void Given() {}
void Other() {}

class FatBinaryTest : public Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    handle_ = __cudaRegisterFatBinary(&wrapper_);
    Register(handle_, Address(&Compiled), "compiled");
    __cudaRegisterFatBinaryEnd(handle_);
  }
  void TearDown() override {
    simSetEmptyKernels(0);
    if (handle_ != nullptr) {
      __cudaUnregisterFatBinary(handle_);
    }
  }
  static void Register(void** handle, const void* host, const char* name) {
    __cudaRegisterFunction(handle, static_cast<const char*>(host), const_cast<char*>(name), name, -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
  }
  cudaError_t Launch(dim3 block = dim3(32)) {
    void* args[] = {nullptr};
    return cudaLaunchKernel(Address(&Compiled), dim3(1), block, args, 0, a_);
  }
  int wrapper_ = 0;
  void** handle_ = nullptr;
};

// cuda_runtime_api.h: cudaErrorNoKernelImageForDevice is what a launch answers when the binary has nothing for the
// device; cudaErrorInvalidDeviceFunction when the function was never compiled as one.
TEST_F(FatBinaryTest, ItsKernelsHaveNoImageHere) {
  const uint64_t before = simKernelCount();
  RETURNS(cudaErrorNoKernelImageForDevice, Launch());
  RETURNS(cudaErrorNoKernelImageForDevice, cudaGetLastError());
  cudaFuncAttributes attributes = {};
  RETURNS(cudaErrorNoKernelImageForDevice, cudaFuncGetAttributes(&attributes, Address(&Compiled)));
  RETURNS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(Address(&Other), dim3(1), dim3(1), nullptr, 0, a_));
  EXPECT_EQ(simKernelCount(), before);
  RETURNS(cudaSuccess, cudaStreamSynchronize(a_));  // no sticky error
}

// As nvcc's code launches: it asks once for the kernel, and for ever launches what it was told.
TEST_F(FatBinaryTest, ItsKernelsCanBeAskedFor) {
  cudaKernel_t kernel = nullptr;
  OK(cudaGetKernel(&kernel, Address(&Compiled)));
  void* args[] = {nullptr};
  RETURNS(cudaErrorNoKernelImageForDevice, __cudaLaunchKernel(kernel, dim3(1), dim3(1), args, 0, a_));
  OK(simSetEmptyKernels(1));
  OK(__cudaLaunchKernel(kernel, dim3(1), dim3(1), args, 0, a_));
  OK(cudaStreamSynchronize(a_));
}

TEST_F(FatBinaryTest, ABodyThatATestGivesRuns) {
  static int runs = 0;
  OK(simRegisterKernel(
      Address(&Given), "given", [](const simLaunch*, void**) { ++runs; }, nullptr, 0, 0));
  // As a library that is loaded later does.
  Register(handle_, Address(&Given), "given");
  OK(cudaLaunchKernel(Address(&Given), dim3(1), dim3(1), nullptr, 0, a_));
  __cudaUnregisterFatBinary(handle_);
  handle_ = nullptr;
  OK(cudaLaunchKernel(Address(&Given), dim3(1), dim3(1), nullptr, 0, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(runs, 2);
}

TEST_F(FatBinaryTest, EmptyKernelsDoNothingInStreamOrder) {
  OK(simSetEmptyKernels(1));
  OK(cudaMemset(device_, 7, kBytes));
  const uint64_t before = simKernelCount();
  OK(Launch());
  RETURNS(cudaErrorNotReady, cudaStreamQuery(a_));  // it is work like any other
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(simKernelCount() - before, 1u);
  EXPECT_EQ(Byte(device_), 7);
  RETURNS(cudaErrorInvalidConfiguration, Launch(dim3(2048)));
  RETURNS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(Address(&Other), dim3(1), dim3(1), nullptr, 0, a_));
  cudaFuncAttributes attributes = {};
  OK(cudaFuncGetAttributes(&attributes, Address(&Compiled)));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
}

TEST_F(FatBinaryTest, KernelsGoWithTheirBinary) {
  OK(simSetEmptyKernels(1));
  OK(Launch());
  __cudaUnregisterFatBinary(handle_);
  handle_ = nullptr;
  RETURNS(cudaErrorInvalidDeviceFunction, Launch());
  OK(cudaStreamSynchronize(a_));  // what was launched still runs
}

// cuda_occupancy.h: as many blocks as their threads, in whole warps, and their shared memory leave room for.
TEST_F(FatBinaryTest, OccupancyIsWhatAMultiprocessorHolds) {
  int threads = 0;
  int shared = 0;
  int most = 0;
  OK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
  OK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
  OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxBlocksPerMultiprocessor, 0));
  int blocks = -1;
  const void* kernel = Address(&Fill);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 1024, 0));
  EXPECT_EQ(blocks, threads / 1024);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 682, 0));
  EXPECT_EQ(blocks, threads / 704);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 1, 0));
  EXPECT_EQ(blocks, most);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 32, static_cast<size_t>(shared) / 2, 0));
  EXPECT_EQ(blocks, 2);
  RETURNS(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, kernel, 32, 0));
  RETURNS(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 0, 0));
  RETURNS(cudaErrorNoKernelImageForDevice,
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Address(&Compiled), 32, 0));
}

}  // namespace
}  // namespace simtest
