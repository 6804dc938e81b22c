// A libcuda.so.1 that does nothing, successfully and at once. Made from the hook table.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define NULL_EXPORT extern "C" [[gnu::visibility("default")]]

namespace {
template <typename... Arguments>
CUresult Succeed(const Arguments&...) {
  return CUDA_SUCCESS;
}
}  // namespace

#define HOOK_DRIVER(group, function, parameters, arguments, detail) \
  NULL_EXPORT CUresult function parameters { return Succeed arguments; }
#define HOOK_DRIVER_V1(group, function, parameters, arguments, detail) \
  HOOK_DRIVER(group, function, parameters, arguments, detail)
#include "shim/hooks.def"
