// Of which kind each function is: what the ledger and the transfer engine do around it (transfer_hooks.h), and what the
// allocator does (allocator_hooks.h). A row says it once, of the runtime's names and of the driver's. The name of the
// per-thread kind (_ptsz, _ptds) has no row: it is of its plain name's kind, and differs in what the default stream is.
//
// Most functions have nothing of their own: the engine is told that some call was made. Of a group that allocates, each
// function is tried again behind what the engines give back, unless a row says otherwise.
// Threading: constants.
// Hazard: a function that enqueues writes to host memory, waits, frees or shares, and has no row here, makes skipping
// unsound. MustHaveRow below holds the groups in which every function needs one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "shim/allocator_hooks.h"
#include "shim/stream_of.h"
#include "shim/transfer_hooks.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

namespace rows {

template <template <tracer::HookId> class Around, template <tracer::HookId> class Pooled, tracer::HookId... kFunctions>
struct Both {
  template <tracer::HookId kId>
  using AroundIt = Around<kId>;
  template <tracer::HookId kId>
  using PooledAs = Pooled<kId>;
  static constexpr tracer::HookId kIds[] = {kFunctions...};
};

template <tracer::HookId kId>
using PooledByGroup = std::conditional_t<tracer::GroupOf(kId) == tracer::HookGroup::kAllocate,
                                         pooled::AllocatesBeside<kId>, pooled::None<kId>>;

template <template <tracer::HookId> class Around, tracer::HookId... kFunctions>
using Are = Both<Around, PooledByGroup, kFunctions...>;

struct Table {
  using enum tracer::HookId;
  template <tracer::HookId kId>
  using None = pooled::None<kId>;

  // clang-format off
  using Rows = std::tuple<
      // ---- copies and memsets
      Are<around::CopyAsync, cudaMemcpyAsync>,
      Are<around::Copy, cudaMemcpy>,
      Are<around::CopiesByDriver, cuMemcpy, cuMemcpyAsync, cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, cuMemcpyDtoH_v2,
          cuMemcpyDtoHAsync_v2, cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2>,
      Are<around::BlockingCopy, cudaMemcpy2D, cudaMemcpy3D, cudaMemcpyPeer, cudaMemcpy3DPeer, cudaMemcpyToSymbol,
          cudaMemcpyFromSymbol, cudaMemcpyToArray, cudaMemcpyFromArray, cudaMemcpyArrayToArray, cudaMemcpy2DToArray,
          cudaMemcpy2DFromArray, cudaMemcpy2DArrayToArray,
          cuMemcpyPeer, cuMemcpyHtoA_v2, cuMemcpyAtoH_v2, cuMemcpyDtoA_v2, cuMemcpyAtoD_v2, cuMemcpyAtoA_v2,
          cuMemcpy2D_v2, cuMemcpy2DUnaligned_v2, cuMemcpy3D_v2, cuMemcpy3DPeer>,
      Are<around::Touches<around::kCopy2D>::Family, cudaMemcpy2DAsync>,
      Are<around::Touches<around::kCopy3D>::Family, cudaMemcpy3DAsync>,
      Are<around::Touches<around::kBox>::Family, cuMemcpy2DAsync_v2, cuMemcpy3DAsync_v2>,
      Are<around::CopiesPeer, cudaMemcpyPeerAsync>,
      Are<around::CopiesBetweenContexts, cuMemcpyPeerAsync>,
      Are<around::CopiesPeer3D, cudaMemcpy3DPeerAsync>,
      Are<around::CopiesBoxBetweenContexts, cuMemcpy3DPeerAsync>,
      Are<around::Touches<around::kCopyToSymbol>::Family, cudaMemcpyToSymbolAsync>,
      Are<around::Touches<around::kCopyFromSymbol>::Family, cudaMemcpyFromSymbolAsync>,
      Are<around::Touches<around::kCopyToArray>::Family, cudaMemcpyToArrayAsync>,
      Are<around::Touches<around::kHostToArray>::Family, cuMemcpyHtoAAsync_v2>,
      Are<around::Touches<around::kCopyFromArray>::Family, cudaMemcpyFromArrayAsync>,
      Are<around::Touches<around::kArrayToHost>::Family, cuMemcpyAtoHAsync_v2>,
      Are<around::Touches<around::kCopy2DToArray>::Family, cudaMemcpy2DToArrayAsync>,
      Are<around::Touches<around::kCopy2DFromArray>::Family, cudaMemcpy2DFromArrayAsync>,
      Are<around::WritesAnywhere, cudaMemcpyBatchAsync, cudaMemcpy3DBatchAsync, cudaMemcpyWithAttributesAsync,
          cudaMemcpy3DWithAttributesAsync,
          cuMemcpyBatchAsync_v1, cuMemcpyBatchAsync_v2, cuMemBatchDecompressAsync, cuMemcpy3DBatchAsync_v1,
          cuMemcpy3DBatchAsync_v2>,
      // Complete when it returns, where it is host memory that is set.
      Are<around::Nothing, cudaMemset, cudaMemset2D, cudaMemset3D,
          cuMemsetD8_v2, cuMemsetD16_v2, cuMemsetD32_v2, cuMemsetD2D8_v2, cuMemsetD2D16_v2, cuMemsetD2D32_v2>,
      Are<around::Touches<around::kSet>::Family, cudaMemsetAsync>,
      Are<around::Touches<around::kSet2D>::Family, cudaMemset2DAsync>,
      Are<around::Touches<around::kSet3D>::Family, cudaMemset3DAsync>,
      Are<around::Touches<around::kFill>::Family, cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async>,
      Are<around::Touches<around::kFill2D>::Family, cuMemsetD2D8Async, cuMemsetD2D16Async, cuMemsetD2D32Async>,

      // ---- other work in streams
      Are<around::HostFunction, cudaLaunchHostFunc, cudaLaunchHostFunc_v2, cudaStreamAddCallback,
          cuLaunchHostFunc, cuStreamAddCallback>,
      Are<around::WritesValue, cuStreamWriteValue32_v1, cuStreamWriteValue64_v1, cuStreamWriteValue32_v2,
          cuStreamWriteValue64_v2>,
      Are<around::WritesValues, cuStreamBatchMemOp_v1, cuStreamBatchMemOp_v2>,
      Are<around::IsWork, cuStreamWaitValue32_v1, cuStreamWaitValue64_v1, cuStreamWaitValue32_v2,
          cuStreamWaitValue64_v2>,

      // ---- graphs
      Both<around::Instantiates, pooled::AllocatesBeside, cudaGraphInstantiate, cudaGraphInstantiateWithFlags,
           cudaGraphInstantiateWithParams,
           cuGraphInstantiate_v1, cuGraphInstantiate_v2, cuGraphInstantiateWithFlags, cuGraphInstantiateWithParams>,
      Are<around::UpdatesGraph, cudaGraphExecUpdate, cuGraphExecUpdate_v1, cuGraphExecUpdate_v2>,
      Are<around::ForgetsGraph, cudaGraphExecMemcpyNodeSetParams, cudaGraphExecMemcpyNodeSetParamsToSymbol,
          cudaGraphExecMemcpyNodeSetParamsFromSymbol, cudaGraphExecMemcpyNodeSetParams1D,
          cudaGraphExecMemsetNodeSetParams, cudaGraphExecChildGraphNodeSetParams, cudaGraphExecNodeSetParams,
          cudaGraphExecDestroy,
          cuGraphExecMemcpyNodeSetParams, cuGraphExecMemsetNodeSetParams, cuGraphExecChildGraphNodeSetParams,
          cuGraphExecNodeSetParams, cuGraphExecDestroy>,
      Both<around::LaunchesGraph, pooled::LaunchesGraph, cudaGraphLaunch, cuGraphLaunch>,
      Both<around::Nothing, pooled::LaunchesGraph, cudaGraphUpload, cuGraphUpload>,

      // ---- captures
      Are<around::BeginsCapture, cudaStreamBeginCapture, cudaStreamBeginCaptureToGraph, cudaStreamBeginRecaptureToGraph,
          cuStreamBeginCapture_v2, cuStreamBeginCaptureToGraph>,
      Are<around::EndsCapture, cudaStreamEndCapture, cuStreamEndCapture>,

      // ---- waits and questions
      Are<around::SynchronizesStream, cudaStreamSynchronize, cuStreamSynchronize>,
      Are<around::Waits, cudaDeviceSynchronize, cudaEventSynchronize, cudaThreadSynchronize, cudaExecutionCtxSynchronize,
          cuCtxSynchronize, cuCtxSynchronize_v2, cuEventSynchronize>,
      Are<around::Asks<around::kStreamQuery>::Family, cudaStreamQuery, cuStreamQuery>,
      Are<around::Asks<around::kEventQuery>::Family, cudaEventQuery, cuEventQuery>,
      Are<around::Asks<around::kElapsedTime>::Family, cudaEventElapsedTime, cuEventElapsedTime_v1,
          cuEventElapsedTime_v2>,
      Are<around::Asks<around::kElapsedTimeWords>::Family, cudaEventElapsedTime_v2>,

      // ---- events and streams
      Are<around::RecordsEvent, cudaEventRecord, cudaEventRecordWithFlags, cuEventRecord, cuEventRecordWithFlags>,
      Are<around::RecordsEventInAll, cudaExecutionCtxRecordEvent, cuCtxRecordEvent, cuGreenCtxRecordEvent>,
      Are<around::DestroysEvent, cudaEventDestroy, cuEventDestroy_v2>,
      Are<around::DestroysStream, cudaStreamDestroy, cuStreamDestroy_v2>,

      // ---- device memory
      Both<around::Plain, pooled::Allocates, cudaMalloc, cuMemAlloc_v2>,
      Both<around::Plain, pooled::CreatesMemory, cuMemCreate>,
      // No memory of the device's, or none yet.
      Both<around::Plain, None, cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode, cuMemMap, cuMemAddressReserve,
           cuMemSetAccess>,
      Are<around::IsWork, cudaMallocAsync, cudaMallocFromPoolAsync, cuMemAllocAsync, cuMemAllocFromPoolAsync,
          cudaFreeAsync, cuMemFreeAsync>,
      Both<around::FreesDeviceMemory, pooled::Frees, cudaFree, cuMemFree_v2>,
      // The memory of a handle lives until nothing maps it, and a mapping that work still uses may not be undone.
      Are<around::Frees, cudaFreeArray, cudaFreeMipmappedArray, cuArrayDestroy, cuMipmappedArrayDestroy, cuMemRelease,
          cuMemUnmap>,
      Are<around::Nothing, cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode, cuMemAddressFree>,
      Both<around::Plain, pooled::CountsMemory, cudaMemGetInfo, cuMemGetInfo_v2>,
      Both<around::SetsLimit, pooled::SetsLimit, cudaDeviceSetLimit, cuCtxSetLimit>,

      // ---- host memory and managed memory
      Are<around::UsesMappedMemory, cudaMallocManaged, cudaLibraryGetManaged, cudaHostGetDevicePointer,
          cudaStreamAttachMemAsync,
          cuMemAllocManaged, cuMemHostGetDevicePointer_v2, cuStreamAttachMemAsync>,
      Are<around::AllocatesHost, cudaHostAlloc, cudaMallocHost, cuMemAllocHost_v2, cuMemHostAlloc>,
      Are<around::FreesHostMemory, cudaFreeHost, cuMemFreeHost>,
      Are<around::RegistersHost, cudaHostRegister, cuMemHostRegister_v2>,
      Are<around::UnregistersHost, cudaHostUnregister, cuMemHostUnregister>,
      Are<around::Nothing, cudaHostGetFlags, cuMemHostGetFlags>,
      Are<around::Advises, cudaMemPrefetchAsync, cudaMemPrefetchAsync_v2, cudaMemAdvise, cudaMemAdvise_v2,
          cuMemPrefetchAsync_v1, cuMemPrefetchAsync_v2, cuMemAdvise_v1, cuMemAdvise_v2>,
      Are<around::AdvisesBatch, cudaMemPrefetchBatchAsync, cudaMemDiscardBatchAsync, cudaMemDiscardAndPrefetchBatchAsync,
          cuMemPrefetchBatchAsync, cuMemDiscardBatchAsync, cuMemDiscardAndPrefetchBatchAsync>,

      // ---- what is shared
      Both<around::Shares, pooled::Exports, cudaIpcGetMemHandle, cuIpcGetMemHandle, cuMemGetHandleForAddressRange>,
      Are<around::Shares, cudaMemPoolExportToShareableHandle, cudaMemPoolImportFromShareableHandle,
          cudaMemPoolExportPointer, cudaMemPoolImportPointer, cudaIpcOpenMemHandle, cudaIpcCloseMemHandle,
          cudaImportExternalMemory, cudaExternalMemoryGetMappedBuffer, cudaDestroyExternalMemory,
          cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle, cuMemPoolExportPointer,
          cuMemPoolImportPointer, cuIpcOpenMemHandle_v1, cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle,
          cuMemExportToShareableHandle, cuMemImportFromShareableHandle, cuMulticastBindMem, cuMulticastBindAddr,
          cuImportExternalMemory, cuExternalMemoryGetMappedBuffer, cuDestroyExternalMemory>,
      Are<around::SharesWork, cudaIpcGetEventHandle, cudaIpcOpenEventHandle, cudaImportExternalSemaphore,
          cudaDestroyExternalSemaphore, cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_v2,
          cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_v2,
          cuIpcGetEventHandle, cuIpcOpenEventHandle, cuImportExternalSemaphore, cuDestroyExternalSemaphore,
          cuSignalExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync>,

      // ---- code, devices and contexts
      Are<around::LoadsCode, cudaLibraryLoadData, cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary,
          cuLibraryLoadData>,
      Are<around::EndsWhatKernelsUse, cudaLibraryUnload, cudaDestroyTextureObject, cudaDestroySurfaceObject,
          cuModuleUnload, cuLibraryUnload, cuTexObjectDestroy, cuSurfObjectDestroy>,
      Are<around::SetsDevice, cudaSetDevice>,
      Are<around::MakesContext, cudaGreenCtxCreate, cuCtxCreate_v2, cuCtxCreate_v3, cuCtxCreate_v4, cuGreenCtxCreate>,
      Are<around::Frees, cudaExecutionCtxDestroy, cuCtxDestroy_v2, cuGreenCtxDestroy>,
      Are<around::RetainsContext, cuDevicePrimaryCtxRetain>,
      Both<around::ReleasesContext, pooled::ReleasesPrimary, cuDevicePrimaryCtxRelease_v1, cuDevicePrimaryCtxRelease_v2>,
      Both<around::ResetsDevice, pooled::Resets, cudaDeviceReset, cudaThreadExit>,
      Both<around::ResetsContext, pooled::Resets, cuDevicePrimaryCtxReset_v1, cuDevicePrimaryCtxReset_v2>,
      Are<around::StopsProfiler, cudaProfilerStop, cuProfilerStop>,
      Are<around::Silent, cudaGetLastError, cudaPeekAtLastError>>;
  // clang-format on
};

inline constexpr int kNoRow = -1;

// The row of each function.
struct Index {
  std::array<int16_t, tracer::kHookCount> row;
  bool names_one_twice;
};
template <typename... Rows>
constexpr Index IndexOf(const std::tuple<Rows...>*) {
  Index index = {};
  index.row.fill(kNoRow);
  int16_t row = 0;
  const auto add = [&](const auto& functions) {
    for (const tracer::HookId id : functions) {
      int16_t& its = index.row[tracer::Index(id)];
      if (its != kNoRow) index.names_one_twice = true;
      its = row;
    }
    ++row;
  };
  (add(Rows::kIds), ...);
  // hooks.def has it behind its plain name.
  for (size_t i = 1; i < tracer::kHookCount; ++i) {
    const bool is_per_thread = IsPerThread(tracer::NameOf(static_cast<tracer::HookId>(i)));
    if (is_per_thread && index.row[i] == kNoRow) index.row[i] = index.row[i - 1];
  }
  return index;
}
inline constexpr Index kIndex = IndexOf(static_cast<const Table::Rows*>(nullptr));
static_assert(!kIndex.names_one_twice, "a function is of one kind");

template <int kRow>
struct RowAt {
  using Type = std::tuple_element_t<kRow, Table::Rows>;
};
template <>
struct RowAt<kNoRow> {
  struct Type {
    template <tracer::HookId kId>
    using AroundIt = around::Plain<kId>;
    template <tracer::HookId kId>
    using PooledAs = PooledByGroup<kId>;
  };
};
template <tracer::HookId kId>
using RowOf = typename RowAt<kIndex.row[tracer::Index(kId)]>::Type;

}  // namespace rows

template <tracer::HookId kId>
using TransferHook = typename rows::RowOf<kId>::template AroundIt<kId>;
template <tracer::HookId kId>
using AllocatorHook = typename rows::RowOf<kId>::template PooledAs<kId>;

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

#define SLIPSTREAM_HOOK(group, function)                                                                   \
  static_assert(TransferHook<tracer::HookId::function>::kHasRow || !MustHaveRow(tracer::HookGroup::group), \
                "shim/hook_rows.h: say what the transfer engine does around this function, or Nothing");
#define SLIPSTREAM_DRIVER_HOOK(group, function, name) SLIPSTREAM_HOOK(group, function)
#include "generated/hook_names.inc"
#undef SLIPSTREAM_HOOK
#undef SLIPSTREAM_DRIVER_HOOK

}  // namespace slipstream::shim
