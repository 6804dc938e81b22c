// A library with its own static runtime, as cuBLAS and NCCL are: nothing it does crosses an exported cuda* symbol.
#include <cuda_runtime_api.h>

extern "C" __attribute__((visibility("default"))) int StaticLibraryLaunch(const void* function, void** args,
                                                                          cudaStream_t stream) {
  return cudaLaunchKernel(function, dim3(1), dim3(1), args, 0, stream);
}
extern "C" __attribute__((visibility("default"))) int StaticLibrarySynchronize(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}
extern "C" __attribute__((visibility("default"))) int StaticLibraryWaitEvent(cudaStream_t stream, cudaEvent_t event) {
  return cudaStreamWaitEvent(stream, event, 0);
}
extern "C" __attribute__((visibility("default"))) int StaticLibraryLastError() { return cudaGetLastError(); }
