// Of which kind (around.h) each function of the runtime is for the ledger and the transfer engine.
//
// TransferHook<id>::Call makes the call. Most functions have nothing of their own: the engine is told that some call
// was made. The _ptsz and _ptds names share a row with the plain one and differ in what the default stream is.
// Threading: any thread.
// Hazard: a function that enqueues writes to host memory, waits, frees or shares, and has no row here, makes skipping
// unsound. MustHaveRow below holds the groups in which every function needs one.
#pragma once

#include "shim/around.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

template <tracer::HookId kId>
struct TransferHook : around::Plain {};

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

AROUND_PTSZ(cudaMemcpyAsync, CopyAsync)
AROUND_PTDS(cudaMemcpy, Copy)
AROUND_PTDS(cudaMemcpy2D, BlockingCopy)
AROUND_PTDS(cudaMemcpy3D, BlockingCopy)
AROUND(cudaMemcpyPeer, BlockingCopy)
AROUND_PTDS(cudaMemcpy3DPeer, BlockingCopy)
AROUND_PTDS(cudaMemcpyToSymbol, BlockingCopy)
AROUND_PTDS(cudaMemcpyFromSymbol, BlockingCopy)
AROUND_PTDS(cudaMemcpyToArray, BlockingCopy)
AROUND_PTDS(cudaMemcpyFromArray, BlockingCopy)
AROUND_PTDS(cudaMemcpyArrayToArray, BlockingCopy)
AROUND_PTDS(cudaMemcpy2DToArray, BlockingCopy)
AROUND_PTDS(cudaMemcpy2DFromArray, BlockingCopy)
AROUND_PTDS(cudaMemcpy2DArrayToArray, BlockingCopy)
AROUND_PTSZ(cudaMemcpy2DAsync, Touches<around::kCopy2D>::Family)
AROUND_PTSZ(cudaMemcpy3DAsync, Touches<around::kCopy3D>::Family)
AROUND(cudaMemcpyPeerAsync, CopiesPeer)
AROUND_PTSZ(cudaMemcpy3DPeerAsync, CopiesPeer3D)
AROUND_PTSZ(cudaMemcpyFromSymbolAsync, Touches<around::kCopyFromSymbol>::Family)
AROUND_PTSZ(cudaMemcpyFromArrayAsync, Touches<around::kCopyFromArray>::Family)
AROUND_PTSZ(cudaMemcpy2DFromArrayAsync, Touches<around::kCopy2DFromArray>::Family)
AROUND_PTSZ(cudaMemcpyToSymbolAsync, Touches<around::kCopyToSymbol>::Family)
AROUND_PTSZ(cudaMemcpyToArrayAsync, Touches<around::kCopyToArray>::Family)
AROUND_PTSZ(cudaMemcpy2DToArrayAsync, Touches<around::kCopy2DToArray>::Family)
AROUND_PTSZ(cudaMemcpyBatchAsync, WritesAnywhere)
AROUND_PTSZ(cudaMemcpy3DBatchAsync, WritesAnywhere)
AROUND_PTSZ(cudaMemcpyWithAttributesAsync, WritesAnywhere)
AROUND_PTSZ(cudaMemcpy3DWithAttributesAsync, WritesAnywhere)

// Complete when it returns, where it is host memory that is set.
AROUND_PTDS(cudaMemset, Nothing)
AROUND_PTDS(cudaMemset2D, Nothing)
AROUND_PTDS(cudaMemset3D, Nothing)
AROUND_PTSZ(cudaMemsetAsync, Touches<around::kSet>::Family)
AROUND_PTSZ(cudaMemset2DAsync, Touches<around::kSet2D>::Family)
AROUND_PTSZ(cudaMemset3DAsync, Touches<around::kSet3D>::Family)

AROUND_PTSZ(cudaLaunchHostFunc, HostFunction)
AROUND_PTSZ(cudaLaunchHostFunc_v2, HostFunction)
AROUND_PTSZ(cudaStreamAddCallback, HostFunction)

AROUND(cudaGraphInstantiate, Instantiates)
AROUND(cudaGraphInstantiateWithFlags, Instantiates)
AROUND_PTSZ(cudaGraphInstantiateWithParams, Instantiates)
AROUND(cudaGraphExecUpdate, UpdatesGraph)
AROUND(cudaGraphExecMemcpyNodeSetParams, ForgetsGraph)
AROUND(cudaGraphExecMemcpyNodeSetParamsToSymbol, ForgetsGraph)
AROUND(cudaGraphExecMemcpyNodeSetParamsFromSymbol, ForgetsGraph)
AROUND(cudaGraphExecMemcpyNodeSetParams1D, ForgetsGraph)
AROUND(cudaGraphExecMemsetNodeSetParams, ForgetsGraph)
AROUND(cudaGraphExecChildGraphNodeSetParams, ForgetsGraph)
AROUND(cudaGraphExecNodeSetParams, ForgetsGraph)
AROUND(cudaGraphExecDestroy, ForgetsGraph)
AROUND_PTSZ(cudaGraphLaunch, LaunchesGraph)
AROUND_PTSZ(cudaGraphUpload, Nothing)

AROUND_PTSZ(cudaStreamBeginCapture, BeginsCapture)
AROUND_PTSZ(cudaStreamBeginCaptureToGraph, BeginsCapture)
AROUND_PTSZ(cudaStreamBeginRecaptureToGraph, BeginsCapture)
AROUND_PTSZ(cudaStreamEndCapture, EndsCapture)

AROUND_PTSZ(cudaStreamSynchronize, SynchronizesStream)
AROUND(cudaDeviceSynchronize, Waits)
AROUND(cudaEventSynchronize, Waits)
AROUND(cudaThreadSynchronize, Waits)
AROUND(cudaExecutionCtxSynchronize, Waits)
AROUND_PTSZ(cudaStreamQuery, Asks<around::kStreamQuery>::Family)
AROUND(cudaEventQuery, Asks<around::kEventQuery>::Family)
AROUND(cudaEventElapsedTime, Asks<around::kElapsedTime>::Family)
AROUND(cudaEventElapsedTime_v2, Asks<around::kElapsedTimeWords>::Family)

AROUND_PTSZ(cudaEventRecord, RecordsEvent)
AROUND_PTSZ(cudaEventRecordWithFlags, RecordsEvent)
AROUND(cudaExecutionCtxRecordEvent, RecordsEventInAll)
AROUND(cudaEventDestroy, DestroysEvent)
AROUND(cudaStreamDestroy, DestroysStream)

AROUND(cudaFree, FreesDeviceMemory)
AROUND(cudaFreeArray, Frees)
AROUND(cudaFreeMipmappedArray, Frees)
AROUND(cudaFreeHost, FreesHostMemory)
// In the stream's order, which a skipped synchronization keeps.
AROUND_PTSZ(cudaFreeAsync, Nothing)
AROUND(cudaGraphAddMemFreeNode, Nothing)

AROUND(cudaMallocManaged, UsesMappedMemory)
AROUND(cudaLibraryGetManaged, UsesMappedMemory)
AROUND(cudaHostGetDevicePointer, UsesMappedMemory)
AROUND(cudaHostAlloc, AllocatesHost<tracer::HookId::cudaHostAlloc>::Family)
AROUND(cudaHostRegister, RegistersHost<tracer::HookId::cudaHostRegister>::Family)
AROUND(cudaHostUnregister, UnregistersHost)
AROUND(cudaMallocHost, AllocatesHost<tracer::HookId::cudaMallocHost>::Family)
AROUND(cudaHostGetFlags, Nothing)

AROUND_PTSZ(cudaStreamAttachMemAsync, UsesMappedMemory)
AROUND_PTSZ(cudaMemPrefetchAsync, Advises)
AROUND_PTSZ(cudaMemPrefetchAsync_v2, Advises)
AROUND(cudaMemAdvise, Advises)
AROUND(cudaMemAdvise_v2, Advises)
AROUND_PTSZ(cudaMemPrefetchBatchAsync, AdvisesBatch)
AROUND_PTSZ(cudaMemDiscardBatchAsync, AdvisesBatch)
AROUND_PTSZ(cudaMemDiscardAndPrefetchBatchAsync, AdvisesBatch)

AROUND(cudaMemPoolExportToShareableHandle, Shares)
AROUND(cudaMemPoolImportFromShareableHandle, Shares)
AROUND(cudaMemPoolExportPointer, Shares)
AROUND(cudaMemPoolImportPointer, Shares)
AROUND(cudaIpcGetMemHandle, Shares)
AROUND(cudaIpcOpenMemHandle, Shares)
AROUND(cudaIpcCloseMemHandle, Shares)
AROUND(cudaIpcGetEventHandle, SharesWork)
AROUND(cudaIpcOpenEventHandle, SharesWork)
AROUND(cudaImportExternalMemory, Shares)
AROUND(cudaExternalMemoryGetMappedBuffer, Shares)
AROUND(cudaDestroyExternalMemory, Shares)
AROUND(cudaImportExternalSemaphore, SharesWork)
AROUND(cudaDestroyExternalSemaphore, SharesWork)
AROUND_PTSZ(cudaSignalExternalSemaphoresAsync, SharesWork)
AROUND_PTSZ(cudaSignalExternalSemaphoresAsync_v2, SharesWork)
AROUND_PTSZ(cudaWaitExternalSemaphoresAsync, SharesWork)
AROUND_PTSZ(cudaWaitExternalSemaphoresAsync_v2, SharesWork)

AROUND(cudaSetDevice, SetsDevice)
AROUND(cudaDeviceSetLimit, SetsLimit)
AROUND(cudaLibraryLoadData, LoadsCode)
AROUND(cudaLibraryUnload, EndsWhatKernelsUse)
AROUND(cudaDestroyTextureObject, EndsWhatKernelsUse)
AROUND(cudaDestroySurfaceObject, EndsWhatKernelsUse)
AROUND(cudaGreenCtxCreate, MakesContext)
AROUND(cudaExecutionCtxDestroy, Frees)
AROUND(cudaDeviceReset, ResetsDevice)
AROUND(cudaThreadExit, ResetsDevice)
AROUND(cudaProfilerStop, StopsProfiler)

AROUND(cudaGetLastError, Silent)
AROUND(cudaPeekAtLastError, Silent)

#undef AROUND
#undef AROUND_PTSZ
#undef AROUND_PTDS

// In these groups a function without a row would be a hole.
constexpr bool MustHaveRow(tracer::HookGroup group) {
  switch (group) {
    case tracer::HookGroup::kCopy:
    case tracer::HookGroup::kSet:
    case tracer::HookGroup::kFree:
    case tracer::HookGroup::kHostMemory:
    case tracer::HookGroup::kManaged:
    case tracer::HookGroup::kSynchronize:
    case tracer::HookGroup::kGraph:
    case tracer::HookGroup::kIpc:
      return true;
    default:
      return false;
  }
}

#define HOOK_NAME(group, function)                                                                         \
  static_assert(TransferHook<tracer::HookId::function>::kHasRow || !MustHaveRow(tracer::HookGroup::group), \
                "shim/transfer_hooks.h: say what the transfer engine does around this function, or Nothing");
#include "shim/hooks.def"

}  // namespace slipstream::shim
