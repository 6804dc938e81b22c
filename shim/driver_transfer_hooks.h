// around.h and transfer_hooks.h for the driver's functions: the same engines, the same rules. What differs is spelling.
// A device address is a number, a box of memory is described by a structure of the driver's, and a copy says its
// direction in its name.
//
// Threading, hazard: as transfer_hooks.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "shim/driver_library.h"
#include "shim/transfer_hooks.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

namespace around {

inline void* At(CUdeviceptr address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }
inline const void* AsPointer(const void* host) { return host; }
inline const void* AsPointer(CUdeviceptr device) { return At(device); }
inline CUdeviceptr AsNumber(const void* device) { return reinterpret_cast<uintptr_t>(device); }

// The engine may make the program's call for a part of the copy, or later, so it is given a function of the runtime's
// signature. `Destination` and `Source` are what the driver's function takes.
template <tracer::HookId kId, typename Destination, typename Source>
struct DriverCopy {
  static Destination ToDestination(void* memory) {
    if constexpr (std::is_pointer_v<Destination>)
      return memory;
    else
      return AsNumber(memory);
  }
  static Source ToSource(const void* memory) {
    if constexpr (std::is_pointer_v<Source>)
      return memory;
    else
      return AsNumber(memory);
  }
  static cudaError_t Async(void* destination, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    using Function = CUresult(Destination, Source, size_t, CUstream);
    auto* const real = reinterpret_cast<Function*>(DriverLibrary::Known(kId));
    return static_cast<cudaError_t>(real(ToDestination(destination), ToSource(source), bytes, stream));
  }
  static cudaError_t Blocking(void* destination, const void* source, size_t bytes, cudaMemcpyKind) {
    using Function = CUresult(Destination, Source, size_t);
    auto* const real = reinterpret_cast<Function*>(DriverLibrary::Known(kId));
    return static_cast<cudaError_t>(real(ToDestination(destination), ToSource(source), bytes));
  }
};

inline constexpr auto kDriverCopy = [](auto dst, auto src, size_t count, CUstream stream) {
  return Enqueued{{AsPointer(dst), count, AsPointer(src), count}, stream};
};

// A copy that is left to the driver.
template <bool kPerThread>
struct CopiesUnserved : Row {
  template <typename Real, typename Destination, typename Source>
  static cudaError_t Call(const Engines& engines, const Real& real, Destination dst, Source src, size_t count,
                          CUstream stream) {
    return Touches<kDriverCopy>::Family<kPerThread>::Call(engines, real, dst, src, count, stream);
  }
  template <typename Real, typename Destination, typename Source>
  static cudaError_t Call(const Engines& engines, const Real& real, Destination dst, Source src, size_t count) {
    return BlockingCopy<kPerThread>::Call(engines, real, dst, src, count);
  }
};

// The copy's direction is in its name; of cuMemcpy it is that of the pointers.
template <tracer::HookId kId, cudaMemcpyKind kKind>
struct CopiesByDriver {
  template <bool kPerThread>
  struct Family : Row {
    using Watched = CopiesUnserved<kPerThread>;
    template <typename Real, typename Destination, typename Source>
    static cudaError_t Call(const Engines& engines, const Real&, Destination dst, Source src, size_t count,
                            CUstream stream) {
      return CopyAsync<kPerThread>::Call(engines, &DriverCopy<kId, Destination, Source>::Async,
                                         const_cast<void*>(AsPointer(dst)), AsPointer(src), count, kKind, stream);
    }
    template <typename Real, typename Destination, typename Source>
    static cudaError_t Call(const Engines& engines, const Real&, Destination dst, Source src, size_t count) {
      return Copy<kPerThread>::Call(engines, &DriverCopy<kId, Destination, Source>::Blocking,
                                    const_cast<void*>(AsPointer(dst)), AsPointer(src), count, kKind);
    }
  };
};

// ---- what asynchronous copies and memsets touch

// One side of a described copy: where its lines begin, and how far they reach. Nothing, where it is an array.
struct Side {
  const void* begin = nullptr;
  size_t span = 0;
};

inline Side SideOf(CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t line, size_t pitch,
                   size_t lines, size_t width) {
  if (type == CU_MEMORYTYPE_ARRAY || lines == 0 || width == 0) return {};
  const void* const base = type == CU_MEMORYTYPE_HOST ? host : At(device);
  if (base == nullptr) return {};
  return {static_cast<const char*>(base) + line * pitch + x, SpanOf(pitch, width, lines)};
}

inline Enqueued OfBox(const CUDA_MEMCPY2D* p, CUstream stream) {
  if (p == nullptr) return {{}, stream};
  const Side to = SideOf(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, p->dstPitch, p->Height,
                         p->WidthInBytes);
  const Side from = SideOf(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, p->srcPitch, p->Height,
                           p->WidthInBytes);
  return {{to.begin, to.span, from.begin, from.span}, stream};
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER name these fields alike. From the first line to the last of the last plane.
template <typename Box>
Enqueued OfBox(const Box* p, CUstream stream) {
  if (p == nullptr || p->Depth == 0 || p->Height == 0) return {{}, stream};
  const Side to = SideOf(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstZ * p->dstHeight + p->dstY,
                         p->dstPitch, (p->Depth - 1) * p->dstHeight + p->Height, p->WidthInBytes);
  const Side from = SideOf(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcZ * p->srcHeight + p->srcY,
                           p->srcPitch, (p->Depth - 1) * p->srcHeight + p->Height, p->WidthInBytes);
  return {{to.begin, to.span, from.begin, from.span}, stream};
}

inline constexpr auto kBox = [](const auto* p, CUstream stream) { return OfBox(p, stream); };
inline constexpr auto kDriverPeer = [](CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t count,
                                       CUstream stream) {
  return Enqueued{{At(dst), count, At(src), count}, stream};
};
inline constexpr auto kHostToArray = [](CUarray, size_t, const void* src, size_t count, CUstream stream) {
  return Enqueued{{nullptr, 0, src, count}, stream};
};
inline constexpr auto kArrayToHost = [](void* dst, CUarray, size_t, size_t count, CUstream stream) {
  return Enqueued{{dst, count, nullptr, 0}, stream};
};
// The element's type is that of the value.
inline constexpr auto kFill = [](CUdeviceptr dst, auto value, size_t count, CUstream stream) {
  return Enqueued{{At(dst), count * sizeof(value), nullptr, 0}, stream};
};
inline constexpr auto kFill2D = [](CUdeviceptr dst, size_t pitch, auto value, size_t width, size_t height,
                                   CUstream stream) {
  return Enqueued{{At(dst), SpanOf(pitch, width * sizeof(value), height), nullptr, 0}, stream};
};

// A value written in the stream's order, perhaps to memory of the host (S10).
template <bool kPerThread>
struct WritesValue : Row {
  template <typename Real, typename Value>
  static cudaError_t Call(const Engines& engines, Real real, CUstream stream, CUdeviceptr address, Value value,
                          unsigned flags) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, address, value, flags);
    if (result == cudaSuccess) engines.ledger.Touches({At(address), sizeof(value), nullptr, 0}, stream, kPerThread);
    return result;
  }
};

// A list of waits and writes, which is not read.
template <bool kPerThread>
struct WritesValues : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, CUstream stream, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, arguments...);
    if (result == cudaSuccess)
      engines.ledger.HostEffect(HostEffectKind::kWrite, AddressRange::All(), stream, kPerThread);
    return result;
  }
};

// ---- contexts

// One more, perhaps; which the engine's one context is not.
template <bool kPerThread>
struct RetainsContext : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUcontext* context, CUdevice device) {
    Engines::OtherCall();
    engines.ledger.UsesDevice(device);
    return real(context, device);
  }
};

template <bool kPerThread>
struct ResetsContext : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdevice device) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kReset);
    engines.DeviceReset(device);
    return real(device);
  }
};

// The context is gone with its last user. Whether this was the last is known behind the call.
template <bool kPerThread>
struct ReleasesContext : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdevice device) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kReset);
    const cudaError_t result = real(device);
    if (result == cudaSuccess && !DriverLibrary::HasPrimaryContext(device)) engines.DeviceReset(device);
    return result;
  }
};

template <bool kPerThread>
struct CopiesBetweenContexts : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                          CUcontext from, size_t count, CUstream stream) {
    if (to != from) engines.ledger.UsesDevice(kNoDeviceOfOurs);
    return Touches<kDriverPeer>::Family<kPerThread>::Call(engines, real, dst, to, src, from, count, stream);
  }
};
template <bool kPerThread>
struct CopiesBoxBetweenContexts : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, const CUDA_MEMCPY3D_PEER* p, CUstream stream) {
    if (cuda::Ledger::Defers() && p != nullptr && p->dstContext != p->srcContext)
      engines.ledger.UsesDevice(kNoDeviceOfOurs);
    return Touches<kBox>::Family<kPerThread>::Call(engines, real, p, stream);
  }
};

// ---- frees

template <bool kPerThread>
struct FreesDeviceAddress : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdeviceptr memory) {
    const auto by_pointer = [&real](void* pointer) { return real(AsNumber(pointer)); };
    return FreesDeviceMemory<kPerThread>::Call(engines, by_pointer, At(memory));
  }
};

}  // namespace around

#define AROUND(function, ...) \
  template <>                 \
  struct TransferHook<tracer::HookId::function> : around::__VA_ARGS__<false> {};
#define AROUND_PTSZ(function, ...) \
  AROUND(function, __VA_ARGS__)    \
  template <>                      \
  struct TransferHook<tracer::HookId::function##_ptsz> : around::__VA_ARGS__<true> {};
#define AROUND_PTDS(function, ...) \
  AROUND(function, __VA_ARGS__)    \
  template <>                      \
  struct TransferHook<tracer::HookId::function##_ptds> : around::__VA_ARGS__<true> {};
#define AROUND_V1_PTSZ(function, ...) \
  AROUND(function##_v1, __VA_ARGS__)  \
  template <>                         \
  struct TransferHook<tracer::HookId::function##_ptsz> : around::__VA_ARGS__<true> {};
// Each name's own function is what the engine falls back to.
#define AROUND_COPY(function, suffix, kind)                                       \
  template <>                                                                     \
  struct TransferHook<tracer::HookId::function>                                   \
      : around::CopiesByDriver<tracer::HookId::function, kind>::Family<false> {}; \
  template <>                                                                     \
  struct TransferHook<tracer::HookId::function##suffix>                           \
      : around::CopiesByDriver<tracer::HookId::function##suffix, kind>::Family<true> {};

AROUND_COPY(cuMemcpy, _ptds, cudaMemcpyDefault)
AROUND_COPY(cuMemcpyAsync, _ptsz, cudaMemcpyDefault)
AROUND_COPY(cuMemcpyHtoD_v2, _ptds, cudaMemcpyHostToDevice)
AROUND_COPY(cuMemcpyHtoDAsync_v2, _ptsz, cudaMemcpyHostToDevice)
AROUND_COPY(cuMemcpyDtoH_v2, _ptds, cudaMemcpyDeviceToHost)
AROUND_COPY(cuMemcpyDtoHAsync_v2, _ptsz, cudaMemcpyDeviceToHost)
AROUND_COPY(cuMemcpyDtoD_v2, _ptds, cudaMemcpyDeviceToDevice)
AROUND_COPY(cuMemcpyDtoDAsync_v2, _ptsz, cudaMemcpyDeviceToDevice)
AROUND_PTDS(cuMemcpyPeer, BlockingCopy)
AROUND_PTDS(cuMemcpyHtoA_v2, BlockingCopy)
AROUND_PTDS(cuMemcpyAtoH_v2, BlockingCopy)
AROUND_PTDS(cuMemcpyDtoA_v2, BlockingCopy)
AROUND_PTDS(cuMemcpyAtoD_v2, BlockingCopy)
AROUND_PTDS(cuMemcpyAtoA_v2, BlockingCopy)
AROUND_PTDS(cuMemcpy2D_v2, BlockingCopy)
AROUND_PTDS(cuMemcpy2DUnaligned_v2, BlockingCopy)
AROUND_PTDS(cuMemcpy3D_v2, BlockingCopy)
AROUND_PTDS(cuMemcpy3DPeer, BlockingCopy)
AROUND_PTSZ(cuMemcpy2DAsync_v2, Touches<around::kBox>::Family)
AROUND_PTSZ(cuMemcpy3DAsync_v2, Touches<around::kBox>::Family)
AROUND_PTSZ(cuMemcpyPeerAsync, CopiesBetweenContexts)
AROUND_PTSZ(cuMemcpy3DPeerAsync, CopiesBoxBetweenContexts)
AROUND_PTSZ(cuMemcpyHtoAAsync_v2, Touches<around::kHostToArray>::Family)
AROUND_PTSZ(cuMemcpyAtoHAsync_v2, Touches<around::kArrayToHost>::Family)
AROUND_V1_PTSZ(cuMemcpyBatchAsync, WritesAnywhere)
AROUND_PTSZ(cuMemcpyBatchAsync_v2, WritesAnywhere)
AROUND_PTSZ(cuMemBatchDecompressAsync, WritesAnywhere)
AROUND_V1_PTSZ(cuMemcpy3DBatchAsync, WritesAnywhere)
AROUND_PTSZ(cuMemcpy3DBatchAsync_v2, WritesAnywhere)

// Complete when it returns, where it is host memory that is set.
AROUND_PTDS(cuMemsetD8_v2, Nothing)
AROUND_PTDS(cuMemsetD16_v2, Nothing)
AROUND_PTDS(cuMemsetD32_v2, Nothing)
AROUND_PTDS(cuMemsetD2D8_v2, Nothing)
AROUND_PTDS(cuMemsetD2D16_v2, Nothing)
AROUND_PTDS(cuMemsetD2D32_v2, Nothing)
AROUND_PTSZ(cuMemsetD8Async, Touches<around::kFill>::Family)
AROUND_PTSZ(cuMemsetD16Async, Touches<around::kFill>::Family)
AROUND_PTSZ(cuMemsetD32Async, Touches<around::kFill>::Family)
AROUND_PTSZ(cuMemsetD2D8Async, Touches<around::kFill2D>::Family)
AROUND_PTSZ(cuMemsetD2D16Async, Touches<around::kFill2D>::Family)
AROUND_PTSZ(cuMemsetD2D32Async, Touches<around::kFill2D>::Family)

AROUND_PTSZ(cuLaunchHostFunc, HostFunction)
AROUND_PTSZ(cuStreamAddCallback, HostFunction)
AROUND_V1_PTSZ(cuStreamWriteValue32, WritesValue)
AROUND_V1_PTSZ(cuStreamWriteValue64, WritesValue)
AROUND_PTSZ(cuStreamWriteValue32_v2, WritesValue)
AROUND_PTSZ(cuStreamWriteValue64_v2, WritesValue)
AROUND_V1_PTSZ(cuStreamBatchMemOp, WritesValues)
AROUND_PTSZ(cuStreamBatchMemOp_v2, WritesValues)

AROUND(cuGraphInstantiate_v1, Instantiates)
AROUND(cuGraphInstantiate_v2, Instantiates)
AROUND(cuGraphInstantiateWithFlags, Instantiates)
AROUND_PTSZ(cuGraphInstantiateWithParams, Instantiates)
AROUND(cuGraphExecUpdate_v1, UpdatesGraph)
AROUND(cuGraphExecUpdate_v2, UpdatesGraph)
AROUND(cuGraphExecMemcpyNodeSetParams, ForgetsGraph)
AROUND(cuGraphExecMemsetNodeSetParams, ForgetsGraph)
AROUND(cuGraphExecChildGraphNodeSetParams, ForgetsGraph)
AROUND(cuGraphExecNodeSetParams, ForgetsGraph)
AROUND(cuGraphExecDestroy, ForgetsGraph)
AROUND_PTSZ(cuGraphLaunch, LaunchesGraph)
AROUND_PTSZ(cuGraphUpload, Nothing)

AROUND_PTSZ(cuStreamBeginCapture_v2, BeginsCapture)
AROUND_PTSZ(cuStreamBeginCaptureToGraph, BeginsCapture)
AROUND_PTSZ(cuStreamEndCapture, EndsCapture)

AROUND_PTSZ(cuStreamSynchronize, SynchronizesStream)
AROUND(cuCtxSynchronize, Waits)
AROUND(cuCtxSynchronize_v2, Waits)
AROUND(cuEventSynchronize, Waits)
AROUND_PTSZ(cuStreamQuery, Asks<around::kStreamQuery>::Family)
AROUND(cuEventQuery, Asks<around::kEventQuery>::Family)
AROUND(cuEventElapsedTime_v1, Asks<around::kElapsedTime>::Family)
AROUND(cuEventElapsedTime_v2, Asks<around::kElapsedTime>::Family)

AROUND_PTSZ(cuEventRecord, RecordsEvent)
AROUND_PTSZ(cuEventRecordWithFlags, RecordsEvent)
AROUND(cuCtxRecordEvent, RecordsEventInAll)
AROUND(cuGreenCtxRecordEvent, RecordsEventInAll)
AROUND(cuEventDestroy_v2, DestroysEvent)
AROUND(cuStreamDestroy_v2, DestroysStream)

AROUND(cuMemFree_v2, FreesDeviceAddress)
AROUND(cuArrayDestroy, Frees)
AROUND(cuMipmappedArrayDestroy, Frees)
AROUND(cuMemFreeHost, FreesHostMemory)
// In the stream's order, which a skipped synchronization keeps.
AROUND_PTSZ(cuMemFreeAsync, Nothing)
AROUND(cuGraphAddMemFreeNode, Nothing)
// The memory of a handle lives until nothing maps it, and a mapping that work still uses may not be undone.
AROUND(cuMemRelease, Frees)
AROUND(cuMemUnmap, Frees)
AROUND(cuMemAddressFree, Nothing)

AROUND(cuMemAllocManaged, UsesMappedMemory)
AROUND(cuMemHostGetDevicePointer_v2, UsesMappedMemory)
AROUND(cuMemAllocHost_v2, AllocatesHost<tracer::HookId::cuMemAllocHost_v2>::Family)
AROUND(cuMemHostAlloc, AllocatesHost<tracer::HookId::cuMemHostAlloc>::Family)
AROUND(cuMemHostRegister_v2, RegistersHost<tracer::HookId::cuMemHostRegister_v2>::Family)
AROUND(cuMemHostUnregister, UnregistersHost)
AROUND(cuMemHostGetFlags, Nothing)

AROUND_PTSZ(cuStreamAttachMemAsync, UsesMappedMemory)
AROUND_V1_PTSZ(cuMemPrefetchAsync, Advises)
AROUND_PTSZ(cuMemPrefetchAsync_v2, Advises)
AROUND(cuMemAdvise_v1, Advises)
AROUND(cuMemAdvise_v2, Advises)
AROUND_PTSZ(cuMemPrefetchBatchAsync, AdvisesBatch)
AROUND_PTSZ(cuMemDiscardBatchAsync, AdvisesBatch)
AROUND_PTSZ(cuMemDiscardAndPrefetchBatchAsync, AdvisesBatch)

AROUND(cuMemPoolExportToShareableHandle, Shares)
AROUND(cuMemPoolImportFromShareableHandle, Shares)
AROUND(cuMemPoolExportPointer, Shares)
AROUND(cuMemPoolImportPointer, Shares)
AROUND(cuIpcGetMemHandle, Shares)
AROUND(cuIpcOpenMemHandle_v1, Shares)
AROUND(cuIpcOpenMemHandle_v2, Shares)
AROUND(cuIpcCloseMemHandle, Shares)
AROUND(cuIpcGetEventHandle, SharesWork)
AROUND(cuIpcOpenEventHandle, SharesWork)
AROUND(cuMemExportToShareableHandle, Shares)
AROUND(cuMemImportFromShareableHandle, Shares)
AROUND(cuMemGetHandleForAddressRange, Shares)
AROUND(cuMulticastBindMem, Shares)
AROUND(cuMulticastBindAddr, Shares)
AROUND(cuImportExternalMemory, Shares)
AROUND(cuExternalMemoryGetMappedBuffer, Shares)
AROUND(cuDestroyExternalMemory, Shares)
AROUND(cuImportExternalSemaphore, SharesWork)
AROUND(cuDestroyExternalSemaphore, SharesWork)
AROUND_PTSZ(cuSignalExternalSemaphoresAsync, SharesWork)
AROUND_PTSZ(cuWaitExternalSemaphoresAsync, SharesWork)

AROUND(cuCtxSetLimit, SetsLimit)
AROUND(cuModuleLoadData, LoadsCode)
AROUND(cuModuleLoadDataEx, LoadsCode)
AROUND(cuModuleLoadFatBinary, LoadsCode)
AROUND(cuModuleUnload, EndsWhatKernelsUse)
AROUND(cuLibraryLoadData, LoadsCode)
AROUND(cuLibraryUnload, EndsWhatKernelsUse)
AROUND(cuTexObjectDestroy, EndsWhatKernelsUse)
AROUND(cuSurfObjectDestroy, EndsWhatKernelsUse)
AROUND(cuDevicePrimaryCtxRetain, RetainsContext)
AROUND(cuDevicePrimaryCtxRelease_v1, ReleasesContext)
AROUND(cuDevicePrimaryCtxRelease_v2, ReleasesContext)
AROUND(cuDevicePrimaryCtxReset_v1, ResetsContext)
AROUND(cuDevicePrimaryCtxReset_v2, ResetsContext)
AROUND(cuCtxCreate_v2, MakesContext)
AROUND(cuCtxCreate_v3, MakesContext)
AROUND(cuCtxCreate_v4, MakesContext)
AROUND(cuCtxDestroy_v2, Frees)
AROUND(cuGreenCtxCreate, MakesContext)
AROUND(cuGreenCtxDestroy, Frees)
AROUND(cuProfilerStop, StopsProfiler)

#undef AROUND
#undef AROUND_PTSZ
#undef AROUND_PTDS
#undef AROUND_V1_PTSZ
#undef AROUND_COPY

#define HOOK_DRIVER_NAME(group, function, name)                                                            \
  static_assert(TransferHook<tracer::HookId::function>::kHasRow || !MustHaveRow(tracer::HookGroup::group), \
                "shim/driver_transfer_hooks.h: say what the transfer engine does around this function, or Nothing");
#include "shim/hooks.def"

}  // namespace slipstream::shim
