// The driver functions that the allocator calls itself.
//
// Driver entry points only (S15): what fails on the way to memory does not become the runtime's last error. They come
// from the libcuda that is already in the process; nothing is linked, nothing is loaded.
// Threading: filled once, then constant.
#pragma once

#include <cuda.h>

namespace slipstream::allocator {

// Row: member, exported name.
#define SLIPSTREAM_ALLOCATOR_DRIVER_FUNCTIONS(ROW)                  \
  ROW(cuCtxGetCurrent, cuCtxGetCurrent)                             \
  ROW(cuCtxGetDevice, cuCtxGetDevice)                               \
  ROW(cuCtxRecordEvent, cuCtxRecordEvent)                           \
  ROW(cuCtxSetCurrent, cuCtxSetCurrent)                             \
  ROW(cuCtxSynchronize, cuCtxSynchronize)                           \
  ROW(cuCtxWaitEvent, cuCtxWaitEvent)                               \
  ROW(cuDeviceGetAttribute, cuDeviceGetAttribute)                   \
  ROW(cuDeviceGetCount, cuDeviceGetCount)                           \
  ROW(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool)         \
  ROW(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)       \
  ROW(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)      \
  ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)           \
  ROW(cuDriverGetVersion, cuDriverGetVersion)                       \
  ROW(cuEventCreate, cuEventCreate)                                 \
  ROW(cuEventQuery, cuEventQuery)                                   \
  ROW(cuEventSynchronize, cuEventSynchronize)                       \
  ROW(cuMemAddressFree, cuMemAddressFree)                           \
  ROW(cuMemAddressReserve, cuMemAddressReserve)                     \
  ROW(cuMemAlloc, cuMemAlloc_v2)                                    \
  ROW(cuMemCreate, cuMemCreate)                                     \
  ROW(cuMemFree, cuMemFree_v2)                                      \
  ROW(cuMemGetAddressRange, cuMemGetAddressRange_v2)                \
  ROW(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity) \
  ROW(cuMemGetInfo, cuMemGetInfo_v2)                                \
  ROW(cuMemMap, cuMemMap)                                           \
  ROW(cuMemPoolGetAccess, cuMemPoolGetAccess)                       \
  ROW(cuMemRelease, cuMemRelease)                                   \
  ROW(cuMemSetAccess, cuMemSetAccess)                               \
  ROW(cuMemUnmap, cuMemUnmap)                                       \
  ROW(cuPointerGetAttribute, cuPointerGetAttribute)                 \
  ROW(cuStreamGetCtx, cuStreamGetCtx)                               \
  ROW(cuStreamGetId, cuStreamGetId)                                 \
  ROW(cuStreamIsCapturing, cuStreamIsCapturing)                     \
  ROW(cuStreamSynchronize, cuStreamSynchronize)                     \
  ROW(cuStreamWaitEvent, cuStreamWaitEvent)                         \
  ROW(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode)

struct Driver {
#define SLIPSTREAM_MEMBER(member, name) decltype(&::name) member = nullptr;
  SLIPSTREAM_ALLOCATOR_DRIVER_FUNCTIONS(SLIPSTREAM_MEMBER)
#undef SLIPSTREAM_MEMBER
};

// Fills in what the process's libcuda has. False: no libcuda is loaded yet, or it is older than CUDA 12.5, which
// brought events of a whole context.
bool LoadDriver(Driver* driver);

// Whether calls fall under another thread's stream capture, as the program's own would.
enum class UnderCapture : bool { kNo, kAsTheProgram };

// While this lives, the calling thread's calls go to the context, and neither fall under another thread's stream
// capture nor break it, unless they are to stand for a call of the program's.
class InContext {
 public:
  InContext(const Driver& driver, CUcontext context, UnderCapture capture = UnderCapture::kNo) : driver_(driver) {
    relaxed_ = capture == UnderCapture::kNo && driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
    known_ = driver_.cuCtxGetCurrent(&before_) == CUDA_SUCCESS;
    if (known_ && before_ != context) driver_.cuCtxSetCurrent(context);
  }
  ~InContext() {
    if (known_) driver_.cuCtxSetCurrent(before_);
    if (relaxed_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUcontext before_ = nullptr;
  bool relaxed_ = false;
  bool known_ = false;
};

}  // namespace slipstream::allocator
