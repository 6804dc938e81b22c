// A library with a runtime of its own: it uses mapped host memory, as cuBLAS and NCCL do for their own ends, and
// submits work.
#include <cuda_runtime_api.h>

extern "C" [[gnu::visibility("default")]] int UseMappedMemory() {
  void* host = nullptr;
  void* device = nullptr;
  const cudaError_t result = cudaHostAlloc(&host, 4096, cudaHostAllocMapped);
  return result != cudaSuccess ? result : cudaHostGetDevicePointer(&device, host, 0);
}

// Work on a stream of the program's, by its own runtime.
extern "C" [[gnu::visibility("default")]] int SubmitTo(cudaStream_t stream) {
  static void* const memory = [] {
    void* allocated = nullptr;
    (void)cudaMalloc(&allocated, 4096);
    return allocated;
  }();
  return cudaMemsetAsync(memory, 0, 4096, stream);
}
