// The driver functions that the engine calls itself.
//
// Driver entry points only (S15): the runtime's last error is never touched. They come from the libcuda that is already
// in the process; nothing is linked, nothing is loaded.
// Threading: filled once, then constant. Streams are passed by explicit handles (stream_ref.h), so the plain names
// serve legacy and per-thread default streams alike.
#pragma once

#include <cuda.h>

namespace slipstream::transfer {

// Row: member, exported name, whether the engine can do without it.
#define SLIPSTREAM_DRIVER_FUNCTIONS(REQUIRED, OPTIONAL)                          \
  REQUIRED(cuCtxGetCurrent, cuCtxGetCurrent)                                     \
  REQUIRED(cuCtxGetDevice, cuCtxGetDevice)                                       \
  REQUIRED(cuCtxSetCurrent, cuCtxSetCurrent)                                     \
  REQUIRED(cuDeviceGetAttribute, cuDeviceGetAttribute)                           \
  REQUIRED(cuDeviceGetCount, cuDeviceGetCount)                                   \
  REQUIRED(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)               \
  REQUIRED(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)              \
  REQUIRED(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                   \
  REQUIRED(cuDriverGetVersion, cuDriverGetVersion)                               \
  REQUIRED(cuEventCreate, cuEventCreate)                                         \
  REQUIRED(cuEventQuery, cuEventQuery)                                           \
  REQUIRED(cuEventRecord, cuEventRecord)                                         \
  REQUIRED(cuEventSynchronize, cuEventSynchronize)                               \
  REQUIRED(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph)         \
  REQUIRED(cuGraphGetNodes, cuGraphGetNodes)                                     \
  REQUIRED(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams)               \
  REQUIRED(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams)               \
  REQUIRED(cuGraphNodeGetType, cuGraphNodeGetType)                               \
  REQUIRED(cuMemAlloc, cuMemAlloc_v2)                                            \
  REQUIRED(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                              \
  REQUIRED(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                              \
  REQUIRED(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                              \
  REQUIRED(cuMemFree, cuMemFree_v2)                                              \
  REQUIRED(cuMemGetInfo, cuMemGetInfo_v2)                                        \
  REQUIRED(cuMemHostRegister, cuMemHostRegister_v2)                              \
  REQUIRED(cuMemHostUnregister, cuMemHostUnregister)                             \
  REQUIRED(cuPointerGetAttributes, cuPointerGetAttributes)                       \
  REQUIRED(cuStreamCreate, cuStreamCreate)                                       \
  REQUIRED(cuStreamGetCtx, cuStreamGetCtx)                                       \
  REQUIRED(cuStreamGetFlags, cuStreamGetFlags)                                   \
  REQUIRED(cuStreamIsCapturing, cuStreamIsCapturing)                             \
  REQUIRED(cuStreamQuery, cuStreamQuery)                                         \
  REQUIRED(cuStreamWaitEvent, cuStreamWaitEvent)                                 \
  REQUIRED(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode) \
  OPTIONAL(cuCtxRecordEvent, cuCtxRecordEvent)                                   \
  OPTIONAL(cuCtxWaitEvent, cuCtxWaitEvent)

struct Driver {
#define SLIPSTREAM_MEMBER(member, name) decltype(&::name) member = nullptr;
  SLIPSTREAM_DRIVER_FUNCTIONS(SLIPSTREAM_MEMBER, SLIPSTREAM_MEMBER)
#undef SLIPSTREAM_MEMBER
};

// Fills in what the process's libcuda has. False: no libcuda is loaded yet, or it lacks a function that is needed.
bool LoadDriver(Driver* driver);

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

}  // namespace slipstream::transfer
