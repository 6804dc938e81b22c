// A libcudart.so.13 that does nothing but remember: which function was entered, and with which argument bytes. Made
// from the hook table, so that every row of it can be held against its wrapper (echo_calls.cpp).

#define __CUDA_API_VERSION_INTERNAL
#include "tests/preload/programs/echo_runtime.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

Echo g_last;

template <typename... Arguments>
cudaError_t Remember(const char* function, const Arguments&... arguments) {
  g_last.Remember(function, arguments...);
  return kEchoResult;
}

}  // namespace

ECHO_EXPORT const Echo* EchoLast() { return &g_last; }
ECHO_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

#define HOOK(group, function, parameters, arguments, detail) \
  ECHO_EXPORT cudaError_t function parameters { return Remember(#function ECHO_PASS arguments); }
#define HOOK_WORDS(group, function, words, runtimes, detail)                                 \
  ECHO_EXPORT cudaError_t echo_##function(ECHO_WORDS_##words(uintptr_t)) __asm__(#function); \
  cudaError_t echo_##function(ECHO_WORDS_##words(uintptr_t)) {                               \
    return Remember(#function ECHO_PASS(ECHO_WORDS_##words()));                              \
  }
#define HOOK_CUSTOM(group, function, runtimes)   \
  ECHO_EXPORT void** function(void* fat_binary); \
  void** function(void* fat_binary) {            \
    Remember(#function, fat_binary);             \
    return static_cast<void**>(fat_binary);      \
  }
#include "shim/hooks.def"
