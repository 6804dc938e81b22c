// A library with a runtime of its own that uses mapped host memory, as cuBLAS and NCCL do for their own ends.
#include <cuda_runtime_api.h>

extern "C" [[gnu::visibility("default")]] int UseMappedMemory() {
  void* host = nullptr;
  void* device = nullptr;
  const cudaError_t result = cudaHostAlloc(&host, 4096, cudaHostAllocMapped);
  return result != cudaSuccess ? result : cudaHostGetDevicePointer(&device, host, 0);
}
