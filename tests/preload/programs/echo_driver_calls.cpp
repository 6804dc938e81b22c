// Calls every function of the driver in the hook table once, as echo_calls.cpp does those of the runtime.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

#include "tests/preload/programs/echo_check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern "C" const Echo* EchoLastOfDriver();

int main() {
  EchoCheck check(*EchoLastOfDriver());
  constexpr auto kResult = static_cast<CUresult>(kEchoResult);
#define HOOK_DRIVER(group, function, parameters, arguments, detail) check.Call(#function, &function, kResult);
#define HOOK_DRIVER_V1(group, function, parameters, arguments, detail) check.Call(#function, &function, kResult);
#include "shim/hooks.def"
  return check.Finish();
}
