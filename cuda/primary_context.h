// Which context is a device's primary one.
//
// Threading: any thread.
#pragma once

#include <cuda.h>

#include "cuda/driver.h"

namespace slipstream::cuda {

// Null: it is not active, or cannot be told. Only a retain names it, and a retain of one that is not active would make
// it, in a program that has a context of its own instead: so its state is asked first.
inline CUcontext ActivePrimary(const Driver& driver, CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) return nullptr;
  CUcontext context = nullptr;
  if (driver.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return nullptr;
  driver.cuDevicePrimaryCtxRelease(device);
  return context;
}

}  // namespace slipstream::cuda
