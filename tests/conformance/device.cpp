#include "tests/conformance/device.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "tests/conformance/kernels_ptx.h"
#include "tests/sim/simcuda.h"

namespace conformance {
namespace {

// On a device whose clocks run as fast as an H200's host: some hundred calls fit in.
constexpr uint64_t kDelayNs = 4'000'000;
// A query runs three operations of the simulator at most.
constexpr int kDelayLaunches = 48;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "conformance: %s\n", what);
  std::_Exit(2);
}

// The driver that the process has anyway. A first call makes the runtime load it.
void* Library() {
  static void* const library = [] {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) Die("no device");
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  }();
  if (library == nullptr) Die("no libcuda.so.1 in the process");
  return library;
}

template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(dlsym(Library(), name));
}

template <typename Function>
Function Need(const char* name) {
  const auto function = Find<Function>(name);
  if (function == nullptr) Die(name);
  return function;
}

enum Kernel : uint8_t { kFill, kMove, kDelay, kKernels };

// ---- simulated: host sides of which only the addresses matter, so they must not be one function to the linker
volatile int kept_apart;
void SimFill() { kept_apart = 1; }
void SimMove() { kept_apart = 2; }
void SimDelay() { kept_apart = 3; }

decltype(&simDevicePointer) sim_device_pointer;

template <typename Value>
Value Argument(void** args, int index) {
  Value value;
  std::memcpy(&value, args[index], sizeof value);
  return value;
}

void FillBody(const simLaunch*, void** args) {
  const auto bytes = Argument<uint64_t>(args, 1);
  const auto salt = Argument<uint32_t>(args, 2);
  auto* const to = static_cast<uint8_t*>(sim_device_pointer(Argument<void*>(args, 0), bytes));
  if (to == nullptr) return;
  for (size_t i = 0; i < bytes; ++i) to[i] = PatternByte(salt, i);
}

void MoveBody(const simLaunch*, void** args) {
  const auto bytes = Argument<uint64_t>(args, 2);
  void* const to = sim_device_pointer(Argument<void*>(args, 0), bytes);
  const void* const from = sim_device_pointer(Argument<void*>(args, 1), bytes);
  if (to != nullptr && from != nullptr) std::memcpy(to, from, bytes);
}

void DelayBody(const simLaunch*, void**) {}

void LoadSimulated(const void** kernels) {
  const auto register_kernel = Need<decltype(&simRegisterKernel)>("simRegisterKernel");
  sim_device_pointer = Need<decltype(&simDevicePointer)>("simDevicePointer");
  static const size_t kSizes[] = {8, 8, 8};
  static const size_t kFillSizes[] = {8, 8, 4};
  kernels[kFill] = reinterpret_cast<const void*>(&SimFill);
  kernels[kMove] = reinterpret_cast<const void*>(&SimMove);
  kernels[kDelay] = reinterpret_cast<const void*>(&SimDelay);
  register_kernel(kernels[kFill], "fill", &FillBody, kFillSizes, 3, 5000);
  register_kernel(kernels[kMove], "move", &MoveBody, kSizes, 3, 5000);
  register_kernel(kernels[kDelay], "delay", &DelayBody, kSizes, 1, 5000);
}

// ---- GPU
void LoadPtx(const void** kernels) {
  const auto load = Need<decltype(&cuLibraryLoadData)>("cuLibraryLoadData");
  const auto get = Need<decltype(&cuLibraryGetKernel)>("cuLibraryGetKernel");
  CUlibrary library = nullptr;
  if (load(&library, kKernelsPtx, nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS) {
    Die("the driver does not compile the kernels");
  }
  const char* const names[kKernels] = {"fill", "move", "delay"};
  for (int i = 0; i < kKernels; ++i) {
    CUkernel kernel = nullptr;
    if (get(&kernel, library, names[i]) != CUDA_SUCCESS) Die(names[i]);
    kernels[i] = kernel;  // cudaLaunchKernel takes it as it is (cudaKernel_t)
  }
}

std::mutex g_mutex;
const void* g_kernels[kKernels];
std::atomic<bool> g_loaded{false};

const void* KernelOf(Kernel kernel) {
  if (!g_loaded.load(std::memory_order_acquire)) {
    const bool simulated = Simulated();
    const std::lock_guard lock(g_mutex);
    if (!g_loaded.load(std::memory_order_relaxed)) {
      simulated ? LoadSimulated(g_kernels) : LoadPtx(g_kernels);
      g_loaded.store(true, std::memory_order_release);
    }
  }
  return g_kernels[kernel];
}

cudaError_t Launch(Kernel kernel, unsigned blocks, void** args, cudaStream_t stream) {
  return cudaLaunchKernel(KernelOf(kernel), dim3(blocks), dim3(kernel == kDelay ? 1 : 256), args, 0, stream);
}

// Threads that take a byte each and step on by all of them.
unsigned BlocksFor(size_t bytes) {
  constexpr size_t kMostBlocks = 1024;
  const size_t blocks = (bytes + 255) / 256;
  return static_cast<unsigned>(blocks < kMostBlocks ? (blocks != 0 ? blocks : 1) : kMostBlocks);
}

}  // namespace

Wrong WrongBytes(const uint8_t* found, size_t bytes, uint32_t salt) {
  Wrong wrong;
  for (size_t i = bytes; i-- > 0;) {
    if (found[i] == PatternByte(salt, i)) continue;
    ++wrong.bytes;
    wrong.first = i;
  }
  return wrong;
}

bool Simulated() {
  static const bool simulated = Find<void*>("simRegisterKernel") != nullptr;
  return simulated;
}

cudaError_t LaunchFill(void* memory, size_t bytes, uint32_t salt, cudaStream_t stream) {
  uint64_t count = bytes;
  void* args[] = {&memory, &count, &salt};
  return Launch(kFill, BlocksFor(bytes), args, stream);
}

cudaError_t LaunchMove(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  uint64_t count = bytes;
  void* args[] = {&to, &from, &count};
  return Launch(kMove, BlocksFor(bytes), args, stream);
}

cudaError_t LaunchDelay(cudaStream_t stream) {
  uint64_t nanoseconds = kDelayNs;
  void* args[] = {&nanoseconds};
  const int launches = Simulated() ? kDelayLaunches : 1;
  for (int i = 0; i < launches; ++i) {
    const cudaError_t result = Launch(kDelay, 1, args, stream);
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

void ForgetKernels() { g_loaded.store(false, std::memory_order_release); }

CUdeviceptr TakeUnseenBut(size_t left) {
  static const auto take = Need<decltype(&cuMemAlloc)>("cuMemAlloc_v2");
  static const auto ask = Need<decltype(&cuMemGetInfo)>("cuMemGetInfo_v2");
  CUdeviceptr memory = 0;
  size_t free = 0;
  size_t total = 0;
  if (ask(&free, &total) != CUDA_SUCCESS || free < 2 * left) return 0;
  return take(&memory, free - left) == CUDA_SUCCESS ? memory : 0;
}

void GiveUnseen(CUdeviceptr memory) {
  static const auto give = Need<decltype(&cuMemFree)>("cuMemFree_v2");
  (void)give(memory);
}

CUresult AddressRange(const void* memory, uintptr_t* base, size_t* bytes) {
  static const auto ask = Need<CUresult (*)(CUdeviceptr*, size_t*, CUdeviceptr)>("cuMemGetAddressRange_v2");
  CUdeviceptr begin = 0;
  const CUresult result = ask(&begin, bytes, reinterpret_cast<CUdeviceptr>(memory));
  *base = begin;
  return result;
}

}  // namespace conformance
