// What the simulator's own tests share: a clean device, a few kernels, checked calls.
#ifndef TESTS_SIM_SIM_TEST_H_
#define TESTS_SIM_SIM_TEST_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/sim/simcuda.h"

#define OK(call) ASSERT_EQ(static_cast<int>(call), 0) << #call
#define RETURNS(code, call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(code)) << #call

namespace simtest {

// Host sides of kernels: only their addresses matter.
inline void Fill() {}    // (uint8_t* p, size_t n, int value)
inline void Move() {}    // (uint8_t* dst, const uint8_t* src, size_t n)
inline void Append() {}  // (Log* host, int what): order of execution, seen by the host
inline void Crash() {}   // (): a fault
struct Log {
  std::vector<int> entries;
};

inline void FillBody(const simLaunch*, void** args) {
  auto* p = *static_cast<uint8_t**>(args[0]);
  const size_t n = *static_cast<size_t*>(args[1]);
  if (void* bytes = simDevicePointer(p, n)) {
    std::memset(bytes, *static_cast<int*>(args[2]), n);
  }
}
inline void MoveBody(const simLaunch*, void** args) {
  const size_t n = *static_cast<size_t*>(args[2]);
  void* dst = simDevicePointer(*static_cast<void**>(args[0]), n);
  const void* src = simDevicePointer(*static_cast<void**>(args[1]), n);
  if (dst != nullptr && src != nullptr) {
    std::memcpy(dst, src, n);
  }
}
inline void AppendBody(const simLaunch*, void** args) {
  (*static_cast<Log**>(args[0]))->entries.push_back(*static_cast<int*>(args[1]));
}
inline void CrashBody(const simLaunch* launch, void**) { simFault(launch, CUDA_ERROR_ILLEGAL_ADDRESS); }

inline const void* Address(void (*function)()) { return reinterpret_cast<const void*>(function); }

inline void RegisterKernels() {
  const size_t fill[] = {sizeof(void*), sizeof(size_t), sizeof(int)};
  const size_t move[] = {sizeof(void*), sizeof(void*), sizeof(size_t)};
  const size_t append[] = {sizeof(void*), sizeof(int)};
  simRegisterKernel(Address(&Fill), "fill", &FillBody, fill, 3, 5000);
  simRegisterKernel(Address(&Move), "move", &MoveBody, move, 3, 5000);
  simRegisterKernel(Address(&Append), "append", &AppendBody, append, 2, 5000);
  simRegisterKernel(Address(&Crash), "crash", &CrashBody, nullptr, 0, 5000);
}

inline cudaError_t LaunchFill(void* p, size_t n, int value, cudaStream_t stream) {
  void* args[] = {&p, &n, &value};
  return cudaLaunchKernel(Address(&Fill), dim3(1), dim3(32), args, 0, stream);
}
inline cudaError_t LaunchMove(void* dst, const void* src, size_t n, cudaStream_t stream) {
  void* args[] = {&dst, &src, &n};
  return cudaLaunchKernel(Address(&Move), dim3(1), dim3(32), args, 0, stream);
}
inline cudaError_t LaunchAppend(Log* log, int what, cudaStream_t stream) {
  void* args[] = {&log, &what};
  return cudaLaunchKernel(Address(&Append), dim3(1), dim3(32), args, 0, stream);
}

// A device as at the start of a process, and seed 0: nothing runs that nobody waits for.
class Sim : public ::testing::Test {
 protected:
  void SetUp() override {
    RegisterKernels();
    OK(simReset());
    OK(simSetSeed(0));
    OK(cudaSetDevice(0));
    (void)cudaGetLastError();
    OK(cudaMalloc(reinterpret_cast<void**>(&device_), kBytes));
    OK(cudaMalloc(reinterpret_cast<void**>(&other_), kBytes));
    OK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kBytes));
    OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
  }
  // What is in device memory once everything is done.
  uint8_t Byte(const void* device, size_t offset = 0) {
    uint8_t value = 0;
    simQuiesce();
    EXPECT_EQ(cudaMemcpy(&value, static_cast<const uint8_t*>(device) + offset, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }

  static constexpr size_t kBytes = 4096;
  uint8_t* device_ = nullptr;
  uint8_t* other_ = nullptr;
  uint8_t* pinned_ = nullptr;
  std::vector<uint8_t> pageable_ = std::vector<uint8_t>(kBytes, 0x11);
  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
};

}  // namespace simtest

#endif  // TESTS_SIM_SIM_TEST_H_
