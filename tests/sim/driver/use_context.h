// The first lines of most API functions.
#ifndef TESTS_SIM_DRIVER_USE_CONTEXT_H_
#define TESTS_SIM_DRIVER_USE_CONTEXT_H_

#include "tests/sim/driver/capture.h"
#include "tests/sim/driver/entry.h"
#include "tests/sim/driver/world.h"

// Takes the lock; `context` is the current one. Returns the error if there is none or it is broken.
// For functions that need no context (the driver's virtual memory is of devices, not of contexts).
#define SIM_USE_WORLD()                            \
  ::simcuda::World& world = ::simcuda::TheWorld(); \
  ::simcuda::Lock lock(world.mutex);               \
  if (!world.initialized) {                        \
    return CUDA_ERROR_NOT_INITIALIZED;             \
  }

#define SIM_USE_CONTEXT()                                                                                           \
  ::simcuda::World& world = ::simcuda::TheWorld();                                                                  \
  ::simcuda::Lock lock(world.mutex);                                                                                \
  ::simcuda::Context* context = nullptr;                                                                            \
  if (const CUresult context_result = ::simcuda::CurrentContext(world, &context); context_result != CUDA_SUCCESS) { \
    return context_result;                                                                                          \
  }

#define SIM_USE_STREAM(handle)                                                                                       \
  SIM_USE_CONTEXT()                                                                                                  \
  ::simcuda::StreamPtr stream;                                                                                       \
  if (const CUresult stream_result = ::simcuda::FindStream(world, handle, &stream); stream_result != CUDA_SUCCESS) { \
    return stream_result;                                                                                            \
  }

#define SIM_TRY(expression)                                                   \
  if (const CUresult try_result = (expression); try_result != CUDA_SUCCESS) { \
    return try_result;                                                        \
  }

#endif  // TESTS_SIM_DRIVER_USE_CONTEXT_H_
