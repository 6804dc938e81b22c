// A driver that a test plays: one context, and events that pass when the test says so.
//
// Threading: one thread. What it remembers is of the whole process, over all tests.
#pragma once

#include <cstdint>
#include <set>

#include "cuda/driver.h"

namespace slipstream::cuda::played {

inline std::set<CUevent> g_passed;
inline int g_questions = 0;  // whether an event has passed

inline CUcontext Context() { return reinterpret_cast<CUcontext>(0x2000); }

inline void PlayedBy(Driver* driver) {
  driver->cuCtxGetCurrent = [](CUcontext* context) {
    *context = Context();
    return CUDA_SUCCESS;
  };
  driver->cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  driver->cuEventCreate = [](CUevent* event, unsigned) {
    static uintptr_t events = 0;
    *event = reinterpret_cast<CUevent>(++events);
    return CUDA_SUCCESS;
  };
  driver->cuEventRecord = [](CUevent event, CUstream) {
    g_passed.erase(event);
    return CUDA_SUCCESS;
  };
  driver->cuEventQuery = [](CUevent event) {
    ++g_questions;
    return g_passed.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
}

}  // namespace slipstream::cuda::played
