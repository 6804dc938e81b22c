// A libcudart.so.13 that does nothing, successfully and at once. Made from the hook table.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define NULL_EXPORT extern "C" [[gnu::visibility("default")]]

NULL_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

template <typename... Arguments>
cudaError_t Succeed(const Arguments&...) {
  return cudaSuccess;
}
#define HOOK(group, function, parameters, arguments, detail) \
  NULL_EXPORT cudaError_t function parameters { return Succeed arguments; }
// Any number of integer arguments may be passed to a function that takes none.
#define HOOK_WORDS(group, function, words, runtimes, detail)    \
  NULL_EXPORT cudaError_t null_##function() __asm__(#function); \
  cudaError_t null_##function() { return cudaSuccess; }
#define HOOK_CUSTOM(group, function, runtimes) \
  NULL_EXPORT void** function(void*);          \
  void** function(void* fat_binary) { return static_cast<void**>(fat_binary); }
#include "shim/hooks.def"
