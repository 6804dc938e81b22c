// What slipstream does not keep as it is (docs/effects.md, What is not kept): each case is a program that says what it
// observed.
//
//   unkept printf             a kernel prints, a blocking copy, the host prints
//   unkept printf_sized       the same, in a program that sets the size of the buffer that kernels print to
//   unkept pinned_read        a kernel reads pinned memory by its address, a blocking copy, the host writes there
//   unkept pinned_write       a kernel writes pinned memory by its address, a blocking copy, the host reads there
//   unkept pinned_write_free  the same, with cudaFree in place of the copy
//   unkept last_error         a kernel fails, and the last call of the program is a blocking copy
//   unkept new_thread         a kernel waits for what a thread submits that never did before, while a blocking copy
//   waits
//                             for the kernel; it gives up after two seconds, and a program of its kind would hang
//
// Prints "right" or "wrong" where it is the program that sees it. Exit status: 0; of last_error 1 where the copy
// failed, as it does without slipstream; 2 where another CUDA call failed, or for wrong usage.
//
// nvcc makes a program for a device of it. Any other compiler makes one for the simulated device (tests/sim), with the
// kernels as host functions.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#ifndef __CUDACC__
#include "tests/sim/simcuda.h"
#endif

namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "unkept: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
#define CHECK(call) Check((call), #call)

constexpr size_t kBytes = size_t{256} << 10;
// Some 0.15 s on a device of 2 GHz: the host has come past the copy long before.
constexpr long long kSpinCycles = 300'000'000;
// Two seconds.
constexpr long long kWaitCycles = 4'000'000'000;
// Longer than a copy of these that waits for nothing.
constexpr std::chrono::milliseconds kInTheCopy{300};
// Kernels in front of the one in question. A simulated one does not take time, but every question about its stream lets
// that do a little.
#ifdef __CUDACC__
constexpr int kInFront = 0;
#else
constexpr int kInFront = 64;
#endif

#ifdef __CUDACC__

__device__ void Spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
__global__ void PrintLate(long long cycles) {
  Spin(cycles);
  printf("from the device\n");
}
__global__ void ReadLate(const volatile int* from, int* to, long long cycles) {
  Spin(cycles);
  *to = *from;
}
__global__ void WriteLate(volatile int* to, int value, long long cycles) {
  Spin(cycles);
  *to = value;
}
// A trap, and no illegal address: where one process had a fault of that kind, others that just began to use the same
// GPU were seen to hang for good.
__global__ void FailLate(long long cycles) {
  Spin(cycles);
  __trap();
}
__global__ void WaitFor(const volatile int* flag, int* came, long long cycles) {
  const long long start = clock64();
  while (*flag == 0 && clock64() - start < cycles) {
  }
  *came = *flag;
}

void RegisterKernels() {}

#else

void PrintLate(long long) {}
void ReadLate(const volatile int*, int*, long long) {}
void WriteLate(volatile int*, int, long long) {}
void FailLate(long long) {}
void WaitFor(const volatile int*, int*, long long) {}

int* AsInt(void* argument) { return static_cast<int*>(simDevicePointer(*static_cast<void**>(argument), sizeof(int))); }

void RegisterKernels() {
  constexpr size_t kLate[] = {sizeof(long long)};
  constexpr size_t kRead[] = {sizeof(void*), sizeof(void*), sizeof(long long)};
  constexpr size_t kWrite[] = {sizeof(void*), sizeof(int), sizeof(long long)};
  constexpr size_t kWait[] = {sizeof(void*), sizeof(void*), sizeof(long long)};
  simRegisterKernel(
      reinterpret_cast<const void*>(&PrintLate), "PrintLate",
      [](const simLaunch* launch, void**) { simPrint(launch, "from the device\n"); }, kLate, 1, 2'000'000);
  simRegisterKernel(
      reinterpret_cast<const void*>(&ReadLate), "ReadLate",
      [](const simLaunch*, void** args) { *AsInt(args[1]) = *AsInt(args[0]); }, kRead, 3, 2'000'000);
  simRegisterKernel(
      reinterpret_cast<const void*>(&WriteLate), "WriteLate",
      [](const simLaunch*, void** args) {
        std::atomic_ref(*AsInt(args[0])).store(*static_cast<int*>(args[1]), std::memory_order_relaxed);
      },
      kWrite, 3, 2'000'000);
  simRegisterKernel(
      reinterpret_cast<const void*>(&FailLate), "FailLate",
      [](const simLaunch* launch, void**) { simFault(launch, cudaErrorLaunchFailure); }, kLate, 1, 2'000'000);
  simRegisterKernel(
      reinterpret_cast<const void*>(&WaitFor), "WaitFor",
      [](const simLaunch*, void** args) {
        const std::atomic_ref flag(*AsInt(args[0]));
        const std::chrono::nanoseconds limit(*static_cast<long long*>(args[2]) / 2);
        const auto start = std::chrono::steady_clock::now();
        while (flag.load(std::memory_order_relaxed) == 0 && std::chrono::steady_clock::now() - start < limit) {
          std::this_thread::yield();
        }
        *AsInt(args[1]) = flag.load(std::memory_order_relaxed);
      },
      kWait, 3, 2'000'000);
}

#endif

class Program {
 public:
  Program() {
    RegisterKernels();
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device_, kBytes));
    void* result = nullptr;
    CHECK(cudaMalloc(&result, sizeof *result_));
    result_ = static_cast<int*>(result);
    void* pinned = nullptr;
    CHECK(cudaMallocHost(&pinned, sizeof *pinned_));
    pinned_ = static_cast<int*>(pinned);
    *pinned_ = 1;
    // All that is made at a first copy, or a first kernel, is there.
    CHECK(cudaMemset(result_, 0, sizeof *result_));
    Write(pinned_, 1, 1);
    CHECK(BlockingCopy());
    CHECK(cudaDeviceSynchronize());
  }

  int Print() {
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0);
    long long cycles = kSpinCycles;
    void* arguments[] = {&cycles};
    Launch(reinterpret_cast<const void*>(&PrintLate), arguments);
    CHECK(BlockingCopy());
    std::puts("from the host");
    return 0;
  }

  int PinnedRead() {
    const volatile int* from = pinned_;
    long long cycles = kSpinCycles;
    void* arguments[] = {&from, &result_, &cycles};
    Launch(reinterpret_cast<const void*>(&ReadLate), arguments);
    CHECK(BlockingCopy());
    *pinned_ = 2;
    CHECK(cudaDeviceSynchronize());
    int seen = 0;
    CHECK(cudaMemcpy(&seen, result_, sizeof seen, cudaMemcpyDeviceToHost));
    return Say(seen == 1);
  }

  int PinnedWrite() {
    Write(pinned_, 7, kSpinCycles);
    CHECK(BlockingCopy());
    const int seen = *pinned_;
    CHECK(cudaDeviceSynchronize());
    return Say(seen == 7);
  }

  int PinnedWriteThenFree() {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, size_t{4} << 20));
    Write(pinned_, 8, kSpinCycles);
    CHECK(cudaFree(memory));
    const int seen = *pinned_;
    CHECK(cudaDeviceSynchronize());
    return Say(seen == 8);
  }

  int NewThread() {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    CHECK(cudaMemset(memory, 0, sizeof(int)));
    volatile int* const flag = static_cast<int*>(memory);
    cudaStream_t other = nullptr;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());
    std::atomic<bool> copies = false;
    std::atomic<bool> copied = false;
    std::thread fresh([&] {
      while (!copies) std::this_thread::yield();
      // The copy has come back, or it waits for the kernel.
      const auto start = std::chrono::steady_clock::now();
      while (!copied && std::chrono::steady_clock::now() - start < kInTheCopy) std::this_thread::yield();
      WriteAtOnce(flag, 1, other);
      CHECK(cudaStreamSynchronize(other));
    });
    long long cycles = kWaitCycles;
    const volatile int* awaited = flag;
    void* arguments[] = {&awaited, &result_, &cycles};
    Launch(reinterpret_cast<const void*>(&WaitFor), arguments);
    copies = true;
    CHECK(BlockingCopy());
    copied = true;
    fresh.join();
    CHECK(cudaDeviceSynchronize());
    int came = 0;
    CHECK(cudaMemcpy(&came, result_, sizeof came, cudaMemcpyDeviceToHost));
    return Say(came == 1);
  }

  int LastError() {
    long long cycles = kSpinCycles;
    void* arguments[] = {&cycles};
    Launch(reinterpret_cast<const void*>(&FailLate), arguments);
    return BlockingCopy() == cudaSuccess ? 0 : 1;
  }

 private:
  static int Say(bool right) {
    std::puts(right ? "right" : "wrong");
    return 0;
  }

  // cudaLaunchKernel, and not <<<>>>, which only nvcc understands.
  void Launch(const void* kernel, void** arguments) {
    for (int i = 0; i < kInFront; ++i) WriteAtOnce(result_, 0, stream_);
    CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, stream_));
  }
  void Write(volatile int* to, int value, long long cycles) {
    void* arguments[] = {&to, &value, &cycles};
    Launch(reinterpret_cast<const void*>(&WriteLate), arguments);
  }
  static void WriteAtOnce(volatile int* to, int value, cudaStream_t stream) {
    long long cycles = 1;
    void* arguments[] = {&to, &value, &cycles};
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(&WriteLate), dim3(1), dim3(1), arguments, 0, stream));
  }
  // As a plain .to(device) does.
  cudaError_t BlockingCopy() {
    const cudaError_t copied = cudaMemcpyAsync(device_, host_.data(), kBytes, cudaMemcpyHostToDevice, stream_);
    return copied != cudaSuccess ? copied : cudaStreamSynchronize(stream_);
  }

  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  int* result_ = nullptr;           // on the device
  volatile int* pinned_ = nullptr;  // volatile: the device writes it
  std::vector<char> host_ = std::vector<char>(kBytes, 1);
};

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  if (which == "printf_sized") CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, size_t{2} << 20));
  Program program;
  if (which == "printf" || which == "printf_sized") return program.Print();
  if (which == "pinned_read") return program.PinnedRead();
  if (which == "pinned_write") return program.PinnedWrite();
  if (which == "pinned_write_free") return program.PinnedWriteThenFree();
  if (which == "last_error") return program.LastError();
  if (which == "new_thread") return program.NewThread();
  std::fprintf(stderr,
               "usage: unkept printf|printf_sized|pinned_read|pinned_write|pinned_write_free|last_error|new_thread\n");
  return 2;
}
