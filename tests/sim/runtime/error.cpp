#include "tests/sim/runtime/entry.h"

using simrt::ThisThread;

namespace {

const char* Name(cudaError_t error) {
  switch (error) {
#define ERROR_NAME(enumerator) \
  case enumerator:             \
    return #enumerator;
#include "tests/sim/runtime/error_names.def"
#undef ERROR_NAME
    default:
      return "unrecognized error code";
  }
}

}  // namespace

SIM_RT_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  static void* const counter = simrt::FindCounter("cudaGetErrorName");
  const simrt::Entry entry(counter, false);
  return Name(error);
}

SIM_RT_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  static void* const counter = simrt::FindCounter("cudaGetErrorString");
  const simrt::Entry entry(counter, false);
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return Name(error);
  }
}

// Returns and clears. A broken context says so again at the next call that uses it.
SIM_RT_EXPORT cudaError_t cudaGetLastError(void) {
  static void* const counter = simrt::FindCounter("cudaGetLastError");
  const simrt::Entry entry(counter, false);
  if (counter != nullptr && entry.refused()) {
    return entry.code();
  }
  const cudaError_t last = ThisThread().last_error;
  ThisThread().last_error = cudaSuccess;
  return last;
}

SIM_RT_EXPORT cudaError_t cudaPeekAtLastError(void) {
  static void* const counter = simrt::FindCounter("cudaPeekAtLastError");
  const simrt::Entry entry(counter, false);
  return counter != nullptr && entry.refused() ? entry.code() : ThisThread().last_error;
}
