// Memory that is freed under a kernel which still writes it, allocated again at once, and written from another stream.
//
//   reuse_race [--full] [--rounds N] [--bytes N]
//
// A round: a long kernel on stream A writes one pattern into block X; cudaFree(X); cudaMalloc of the same size; stream
// B, which waits for nothing, writes another pattern into the new block at once; when both streams are done every byte
// must be B's. With the driver's own cudaFree, which waits, that cannot go wrong; a pool that hands out X again too
// early fails here. --full first takes all other memory of the device, so that no other block can be had.
//
// Prints one line: rounds, in how many the new block had the old one's address, and "all bytes as expected" or how many
// were not. Exit status: 0 as expected, 1 not so, 2 a CUDA call failed or wrong usage.
//
// nvcc makes a program for a device of it. Any other compiler makes one for the simulated device (tests/sim), with the
// kernels as host functions: what it checks is the same.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifndef __CUDACC__
#include "tests/sim/simcuda.h"
#endif

namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "reuse_race: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
#define CHECK(call) Check((call), #call)

constexpr size_t kMiB = size_t{1} << 20;
// Few, so that the device has room for B's kernels while A's runs.
constexpr unsigned kBlocks = 32;
constexpr unsigned kThreads = 256;
// Some 20 ms on a device of 2 GHz: much longer than the host needs to come to B's kernel.
constexpr long long kSpinCycles = 40'000'000;

#ifdef __CUDACC__

// Waits, then writes: whoever was handed the memory meanwhile has written it by then.
__global__ void WriteLate(uint8_t* data, size_t size, int value, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    data[i] = static_cast<uint8_t>(value);
  }
}

__global__ void CountOthers(const uint8_t* data, size_t size, int value, unsigned long long* others) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned long long found = 0;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    found += data[i] != static_cast<uint8_t>(value);
  }
  if (found != 0) atomicAdd(others, found);
}

void RegisterKernels() {}

#else

void WriteLate(uint8_t*, size_t, int, long long) {}
void CountOthers(const uint8_t*, size_t, int, unsigned long long*) {}

void WriteLateBody(const simLaunch*, void** args) {
  const size_t size = *static_cast<size_t*>(args[1]);
  void* const data = simDevicePointer(*static_cast<void**>(args[0]), size);
  if (data != nullptr) std::memset(data, *static_cast<int*>(args[2]), size);
}

void CountOthersBody(const simLaunch*, void** args) {
  const size_t size = *static_cast<size_t*>(args[1]);
  const auto* const data = static_cast<const uint8_t*>(simDevicePointer(*static_cast<void**>(args[0]), size));
  auto* const others =
      static_cast<unsigned long long*>(simDevicePointer(*static_cast<void**>(args[3]), sizeof(unsigned long long)));
  if (data == nullptr || others == nullptr) return;
  for (size_t i = 0; i < size; ++i) *others += data[i] != static_cast<uint8_t>(*static_cast<int*>(args[2]));
}

void RegisterKernels() {
  constexpr size_t kSizes[] = {sizeof(void*), sizeof(size_t), sizeof(int), sizeof(long long)};
  simRegisterKernel(reinterpret_cast<const void*>(&WriteLate), "WriteLate", &WriteLateBody, kSizes, 4, 2'000'000);
  simRegisterKernel(reinterpret_cast<const void*>(&CountOthers), "CountOthers", &CountOthersBody, kSizes, 4, 10'000);
}

#endif

// cudaLaunchKernel, and not <<<>>>, which only nvcc understands.
void Write(uint8_t* data, size_t size, int value, long long cycles, cudaStream_t stream) {
  void* arguments[] = {&data, &size, &value, &cycles};
  CHECK(
      cudaLaunchKernel(reinterpret_cast<const void*>(&WriteLate), dim3(kBlocks), dim3(kThreads), arguments, 0, stream));
}

void Count(const uint8_t* data, size_t size, int value, unsigned long long* others, cudaStream_t stream) {
  void* arguments[] = {&data, &size, &value, &others};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(&CountOthers), dim3(kBlocks), dim3(kThreads), arguments, 0,
                         stream));
}

// Takes all that is left, down to pieces of `least` bytes, and gives nothing back.
void TakeAllMemory(size_t least) {
  for (size_t piece = 4096 * kMiB; piece != 0; piece = piece == least ? 0 : piece / 4 > least ? piece / 4 : least) {
    for (;;) {
      void* memory = nullptr;
      const cudaError_t result = cudaMalloc(&memory, piece);
      if (result == cudaErrorMemoryAllocation) break;
      CHECK(result);
    }
  }
  cudaGetLastError();
}

struct Options {
  bool full = false;
  int rounds = 20;
  size_t bytes = 64 * kMiB;
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--full") {
      options->full = true;
      continue;
    }
    char* end = nullptr;
    const unsigned long long value = i + 1 < argc ? std::strtoull(argv[++i], &end, 10) : 0;
    if (end == nullptr || *end != '\0' || value == 0) return false;
    if (name == "--rounds") {
      options->rounds = static_cast<int>(value);
    } else if (name == "--bytes") {
      options->bytes = value;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: reuse_race [--full] [--rounds N] [--bytes N]\n");
    return 2;
  }
  RegisterKernels();
  cudaStream_t a = nullptr;
  cudaStream_t b = nullptr;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  void* counter = nullptr;
  CHECK(cudaMalloc(&counter, sizeof(unsigned long long)));
  CHECK(cudaMemset(counter, 0, sizeof(unsigned long long)));
  auto* const others = static_cast<unsigned long long*>(counter);
  void* block = nullptr;
  CHECK(cudaMalloc(&block, options.bytes));
  // Everything once: the device needs memory for the kernels' code, and the runtime for a copy to the host.
  unsigned long long wrong = 0;
  Write(static_cast<uint8_t*>(block), options.bytes, 0, 0, a);
  Count(static_cast<uint8_t*>(block), options.bytes, 0, others, a);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&wrong, others, sizeof(wrong), cudaMemcpyDeviceToHost));
  if (wrong != 0) {
    std::fprintf(stderr, "reuse_race: %llu bytes of the first block are wrong: the kernels do not work here\n", wrong);
    return 2;
  }
  if (options.full) TakeAllMemory(options.bytes);

  int same_address = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const int first = 2 * (round % 100) + 1;
    Write(static_cast<uint8_t*>(block), options.bytes, first, kSpinCycles, a);
    void* const before = block;
    CHECK(cudaFree(block));
    CHECK(cudaMalloc(&block, options.bytes));
    same_address += block == before ? 1 : 0;
    Write(static_cast<uint8_t*>(block), options.bytes, first + 1, 0, b);
    CHECK(cudaStreamSynchronize(b));
    CHECK(cudaStreamSynchronize(a));
    Count(static_cast<uint8_t*>(block), options.bytes, first + 1, others, b);
    CHECK(cudaStreamSynchronize(b));
  }
  CHECK(cudaMemcpy(&wrong, others, sizeof(wrong), cudaMemcpyDeviceToHost));
  std::printf("%d rounds, same address in %d, ", options.rounds, same_address);
  if (wrong != 0) {
    std::printf("%llu WRONG BYTES\n", wrong);
  } else {
    std::printf("all bytes as expected\n");
  }
  return wrong != 0 ? 1 : 0;
}
