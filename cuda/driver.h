// The driver functions that slipstream calls itself.
//
// Driver entry points only (S15): what fails here does not become the runtime's last error. They come from the libcuda
// that is already in the process; nothing is linked, nothing is loaded. Streams are passed by explicit handles, so the
// plain names serve legacy and per-thread default streams alike.
// Threading: filled once, then constant.
#pragma once

#include <cuda.h>

namespace slipstream::cuda {

// Row: member, exported name. Every driver that serves a runtime of CUDA 12 has them.
#define SLIPSTREAM_DRIVER_FUNCTIONS(ROW)                            \
  ROW(cuCtxGetCurrent, cuCtxGetCurrent)                             \
  ROW(cuCtxGetDevice, cuCtxGetDevice)                               \
  ROW(cuCtxSetCurrent, cuCtxSetCurrent)                             \
  ROW(cuCtxSynchronize, cuCtxSynchronize)                           \
  ROW(cuDeviceGetAttribute, cuDeviceGetAttribute)                   \
  ROW(cuDeviceGetCount, cuDeviceGetCount)                           \
  ROW(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)       \
  ROW(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)      \
  ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)           \
  ROW(cuDriverGetVersion, cuDriverGetVersion)                       \
  ROW(cuEventCreate, cuEventCreate)                                 \
  ROW(cuEventDestroy, cuEventDestroy_v2)                            \
  ROW(cuEventQuery, cuEventQuery)                                   \
  ROW(cuEventRecord, cuEventRecord)                                 \
  ROW(cuEventSynchronize, cuEventSynchronize)                       \
  ROW(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph) \
  ROW(cuGraphGetNodes, cuGraphGetNodes)                             \
  ROW(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams)       \
  ROW(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams)       \
  ROW(cuGraphNodeGetType, cuGraphNodeGetType)                       \
  ROW(cuMemAlloc, cuMemAlloc_v2)                                    \
  ROW(cuMemFree, cuMemFree_v2)                                      \
  ROW(cuMemFreeAsync, cuMemFreeAsync)                               \
  ROW(cuMemGetAddressRange, cuMemGetAddressRange_v2)                \
  ROW(cuMemGetInfo, cuMemGetInfo_v2)                                \
  ROW(cuMemHostRegister, cuMemHostRegister_v2)                      \
  ROW(cuMemHostUnregister, cuMemHostUnregister)                     \
  ROW(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                      \
  ROW(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                      \
  ROW(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                      \
  ROW(cuPointerGetAttribute, cuPointerGetAttribute)                 \
  ROW(cuPointerGetAttributes, cuPointerGetAttributes)               \
  ROW(cuStreamCreate, cuStreamCreate)                               \
  ROW(cuStreamDestroy, cuStreamDestroy_v2)                          \
  ROW(cuStreamGetCtx, cuStreamGetCtx)                               \
  ROW(cuStreamGetFlags, cuStreamGetFlags)                           \
  ROW(cuStreamIsCapturing, cuStreamIsCapturing)                     \
  ROW(cuStreamQuery, cuStreamQuery)                                 \
  ROW(cuStreamSynchronize, cuStreamSynchronize)                     \
  ROW(cuStreamWaitEvent, cuStreamWaitEvent)                         \
  ROW(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode)

// Events of a whole context, which CUDA 12.5 brought.
#define SLIPSTREAM_CONTEXT_EVENT_FUNCTIONS(ROW) \
  ROW(cuCtxRecordEvent, cuCtxRecordEvent)       \
  ROW(cuCtxWaitEvent, cuCtxWaitEvent)

struct Driver {
#define SLIPSTREAM_MEMBER(member, name) decltype(&::name) member = nullptr;
  SLIPSTREAM_DRIVER_FUNCTIONS(SLIPSTREAM_MEMBER)
  SLIPSTREAM_CONTEXT_EVENT_FUNCTIONS(SLIPSTREAM_MEMBER)
#undef SLIPSTREAM_MEMBER
};

// Fills in what the process's libcuda has. False: no libcuda is loaded yet, or it lacks a function other than those of
// context events. What one caller has found is known to the next one, without another search.
bool LoadDriver(Driver* driver);

// Whether events of a whole context are there. A driver exports their names before it serves them.
bool HasContextEvents(const Driver& driver);

// The calling thread's calls neither fall under another thread's stream capture nor break it, while this lives (S05).
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    entered_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~RelaxedCapture() {
    if (entered_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool entered_ = false;
};

// The context is the calling thread's current one, while this lives.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, CUcontext context) : driver_(driver) {
    known_ = driver_.cuCtxGetCurrent(&before_) == CUDA_SUCCESS;
    if (known_ && before_ != context) driver_.cuCtxSetCurrent(context);
  }
  ~CurrentContext() {
    if (known_) driver_.cuCtxSetCurrent(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  CUcontext before_ = nullptr;
  bool known_ = false;
};

// Both.
class InContext {
 public:
  InContext(const Driver& driver, CUcontext context) : current_(driver, context), relaxed_(driver) {}

 private:
  CurrentContext current_;
  RelaxedCapture relaxed_;
};

}  // namespace slipstream::cuda
