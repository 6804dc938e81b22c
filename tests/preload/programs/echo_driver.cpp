// A libcuda.so.1 that does nothing but remember: which function was entered, and with which argument bytes. Made from
// the hook table, as echo_runtime.cpp is.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

#include "tests/preload/programs/echo_runtime.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

Echo g_last;

template <typename... Arguments>
CUresult Remember(const char* function, const Arguments&... arguments) {
  g_last.Remember(function, arguments...);
  return static_cast<CUresult>(kEchoResult);
}

}  // namespace

ECHO_EXPORT const Echo* EchoLastOfDriver() { return &g_last; }

#define HOOK_DRIVER(group, function, parameters, arguments, detail) \
  ECHO_EXPORT CUresult function parameters { return Remember(#function ECHO_PASS arguments); }
#define HOOK_DRIVER_V1(group, function, parameters, arguments, detail) \
  HOOK_DRIVER(group, function, parameters, arguments, detail)
#include "shim/hooks.def"
