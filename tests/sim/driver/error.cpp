#include "tests/sim/driver/entry.h"

using namespace simcuda;

static const char* Name(CUresult error) {
  switch (error) {
#define ERROR_NAME(enumerator) \
  case enumerator:             \
    return #enumerator;
#include "tests/sim/driver/error_names.def"
#undef ERROR_NAME
    default:
      return nullptr;
  }
}

SIM_DRIVER(cuGetErrorName, 6000, cuGetErrorName, (CUresult error, const char** pStr), (error, pStr)) {
  *pStr = Name(error);
  return *pStr != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Programs match on some of these texts; the rest is just the name.
SIM_DRIVER(cuGetErrorString, 6000, cuGetErrorString, (CUresult error, const char** pStr), (error, pStr)) {
  switch (error) {
    case CUDA_SUCCESS:
      *pStr = "no error";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
      *pStr = "invalid argument";
      return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *pStr = "out of memory";
      return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *pStr = "an illegal memory access was encountered";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_READY:
      *pStr = "device not ready";
      return CUDA_SUCCESS;
    default:
      *pStr = Name(error);
      return *pStr != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
}
