// A library with a CUDA runtime of its own that is there before the program's first call, as NCCL is: it looks up
// functions of the driver, asks what the devices can do, and works on them on threads that no context was made for.
// Prints what every call answers; addresses are another process's own.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>
#include <thread>

namespace {

void Say(const char* what, int result) { std::printf("nccl, %s: %d\n", what, result); }

template <typename Function>
Function LookedUp(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t result = cudaGetDriverEntryPointByVersion(name, &function, 13000, cudaEnableDefault, &found);
  std::printf("nccl, look-up of %s: %d, %d\n", name, static_cast<int>(result), static_cast<int>(found));
  return reinterpret_cast<Function>(function);
}
#define LOOKED_UP(name) LookedUp<decltype(&name)>(#name)

// Before anybody has a context; cuInit may not have been called either.
void AskTheDriver() {
  int version = 0;
  Say("cudaDriverGetVersion", cudaDriverGetVersion(&version));
  const auto current = LOOKED_UP(cuCtxGetCurrent);
  const auto get_device = LOOKED_UP(cuDeviceGet);
  const auto attribute = LOOKED_UP(cuDeviceGetAttribute);
  const auto granularity = LOOKED_UP(cuMemGetAllocationGranularity);
  const auto create = LOOKED_UP(cuMemCreate);
  const auto release = LOOKED_UP(cuMemRelease);
  if (current == nullptr || get_device == nullptr || attribute == nullptr || granularity == nullptr ||
      create == nullptr || release == nullptr) {
    return;
  }
  for (const bool initialized : {false, true}) {
    if (initialized) {
      const auto initialize = LOOKED_UP(cuInit);
      Say("cuInit", initialize != nullptr ? initialize(0) : -1);
    }
    CUcontext context = nullptr;
    Say("cuCtxGetCurrent", current(&context));
    std::printf("nccl, a context: %s\n", context != nullptr ? "yes" : "no");
    CUdevice device = -1;
    Say("cuDeviceGet", get_device(&device, 0));
    int value = -1;
    Say("cuDeviceGetAttribute", attribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    CUmemAllocationProp of = {};
    of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t bytes = 0;
    Say("cuMemGetAllocationGranularity", granularity(&bytes, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle handle = 0;
    const CUresult made = create(&handle, size_t{2} << 20, &of, 0);
    Say("cuMemCreate", made);
    if (made == CUDA_SUCCESS) Say("cuMemRelease", release(handle));
  }
}

// What a communicator does on a thread of its own.
void WorkOn(int device) {
  const std::string bytes(size_t{3} << 20, static_cast<char>('a' + device));
  std::string back(bytes.size(), ' ');
  void* shared = nullptr;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  Say("cudaSetDevice", cudaSetDevice(device));
  Say("cudaThreadExchangeStreamCaptureMode", cudaThreadExchangeStreamCaptureMode(&mode));
  Say("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Say("cudaHostAlloc", cudaHostAlloc(&shared, 4096, cudaHostAllocMapped));
  Say("cudaMalloc", cudaMalloc(&memory, bytes.size()));
  Say("cudaMemsetAsync", cudaMemsetAsync(memory, 0, bytes.size(), stream));
  Say("to the device", cudaMemcpyAsync(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream));
  Say("to the host", cudaMemcpyAsync(back.data(), memory, back.size(), cudaMemcpyDeviceToHost, stream));
  Say("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  std::printf("nccl, bytes: %s\n", back == bytes ? "equal" : "different");
  Say("cudaFree", cudaFree(memory));
  Say("cudaFree, again", cudaFree(memory));
  Say("cudaGetLastError", cudaGetLastError());
  Say("cudaFreeHost", cudaFreeHost(shared));
  Say("cudaStreamDestroy", cudaStreamDestroy(stream));
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void UseCudaFirst() {
  AskTheDriver();
  for (const int device : {1, 0}) std::thread(&WorkOn, device).join();
}
