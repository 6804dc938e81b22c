// Calls every function of the hook table once, with arguments whose every byte is known, and checks that the runtime
// was entered by the same name with the same bytes and that its result came back. Run bare it checks itself; run under
// the preload it checks all wrappers. Prints one line per wrong function and "N functions, M wrong" at the end; exit
// status 1 if M is not 0.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include "tests/preload/programs/echo_check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" void** __cudaRegisterFatBinary(void*);
extern "C" void** __cudaRegisterManagedVar(void*);

#define HOOK_WORDS(group, function, words, runtimes, detail) \
  extern "C" cudaError_t words_##function(ECHO_WORDS_##words(uintptr_t)) __asm__(#function);
#include "shim/hooks.def"

int main() {
  EchoCheck check(*EchoLast());
#define HOOK(group, function, parameters, arguments, detail) check.Call(#function, &function, kEchoResult);
#define HOOK_WORDS(group, function, words, runtimes, detail) check.Call(#function, &words_##function, kEchoResult);
#define HOOK_CUSTOM(group, function, runtimes) check.Call(#function, &function, kEchoResult);
#include "shim/hooks.def"
  return check.Finish();
}
