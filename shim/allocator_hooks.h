// What the allocator does around a hooked call: which calls its pool answers, and which it has to know of. The rules
// are the pools' (allocator/segments.h); here is only who calls what.
//
// AllocatorHook<id>::Call stands in front of TransferHook<id>::Call, which `next` makes: a call that the pool answers
// never gets there, and counts for the transfer engine as some other call.
// Threading: any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "allocator/segments.h"
#include "shim/engines.h"
#include "shim/resolver.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

namespace pooled {

struct NoRow {
  static constexpr bool kHasRow = false;
};
struct Row {
  static constexpr bool kHasRow = true;
};

// Whether an allocation that found no memory is to be made once more: what was idle has gone back to the driver (S36).
// The first attempt is nobody's error then (S15), and the runtime that failed forgets it.
// `Pool`: Segments, or NoPool.
template <tracer::HookId kId, typename Pool>
bool AgainAfter(cudaError_t result, Pool& pool, const Engines& engines, const void* real,
                CUdevice device = cuda::kCurrentDevice) {
  if (result != cudaErrorMemoryAllocation) return false;
  const bool pool_had_some = pool.GiveBack(device);
  if (!engines.GiveBackDeviceStaging(device) && !pool_had_some) return false;
  if constexpr (!tracer::IsOfDriver(kId)) {
    using LastError = cudaError_t();
    void* const forget = Resolver::Beside(kId, real, tracer::HookId::cudaGetLastError);
    if (forget != nullptr) (void)reinterpret_cast<LastError*>(forget)();
  }
  return true;
}

// Where no pool answers: the transfer engine's staging memory is still nobody's loss.
struct NoPool {
  static bool GiveBack(CUdevice) { return false; }
  static void AddIdle(size_t*, const size_t*) {}
};

template <tracer::HookId kId, typename Next>
cudaError_t AllocatesAs(allocator::Segments& pool, const Engines& engines, const void* real, const Next& next,
                        void** memory, size_t bytes) {
  Engines::OtherCall();
  bool by_driver = false;
  cudaError_t result = pool.Allocate(next, memory, bytes, &by_driver);
  // A thread's first call has no context that the pool could be asked for, and a capture keeps the pool out.
  if (AgainAfter<kId>(result, pool, engines, real)) result = pool.Allocate(next, memory, bytes, &by_driver);
  if (by_driver) engines.AfterAllocation();
  return result;
}

struct Allocates : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void* real, const Next& next,
                          void** memory, size_t bytes) {
    return AllocatesAs<tracer::HookId::cudaMalloc>(pool, engines, real, next, memory, bytes);
  }
};

// Device memory that does not come from the pool, but is not to be missing because of it.
template <tracer::HookId kId>
struct AllocatesBeside : Row {
  template <typename Pool, typename Next, typename... Arguments>
  static cudaError_t Call(Pool& pool, const Engines& engines, const void* real, const Next& next,
                          Arguments... arguments) {
    const cudaError_t result = next(arguments...);
    return AgainAfter<kId>(result, pool, engines, real) ? next(arguments...) : result;
  }
};

// The same of physical memory, on the device that the call names: the thread may have no context, or another device's.
template <tracer::HookId kId>
struct CreatesMemory : Row {
  template <typename Pool, typename Next>
  static cudaError_t Call(Pool& pool, const Engines& engines, const void* real, const Next& next,
                          CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                          unsigned long long flags) {
    const cudaError_t result = next(handle, bytes, properties, flags);
    if (result != cudaErrorMemoryAllocation || properties == nullptr ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return result;
    }
    const CUdevice device = properties->location.id;
    return AgainAfter<kId>(result, pool, engines, real, device) ? next(handle, bytes, properties, flags) : result;
  }
};

// A graph that may take memory of its own. A launch that found none leaves the graph broken: it is not made again.
struct LaunchesGraph : Row {
  template <typename Next, typename Stream>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void*, const Next& next,
                          cudaGraphExec_t executable, Stream stream) {
    if (engines.ledger.GraphOwnsMemory(executable)) pool.MakeRoom();
    return next(executable, stream);
  }
};

// The size of a heap, or of a buffer, that the driver takes at a launch to come, where nobody could give memory back:
// what is idle goes back now, and as much stays free.
struct SetsLimit : Row {
  template <typename Next, typename Limit>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void*, const Next& next, Limit limit,
                          size_t value) {
    const cudaError_t result = next(limit, value);
    if (result != cudaSuccess) return result;
    switch (static_cast<int>(limit)) {  // the two enumerations have the same numbers
      case cudaLimitMallocHeapSize:
      case cudaLimitPrintfFifoSize:
        pool.SetAside(static_cast<int>(limit), value);
        [[fallthrough]];
      case cudaLimitStackSize:
        pool.MakeRoom();
        (void)engines.GiveBackDeviceStaging(cuda::kCurrentDevice);
        break;
      default:
        break;
    }
    return result;
  }
};

struct Frees : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, void* memory) {
    Engines::OtherCall();
    return pool.Free(next, memory);
  }
};

struct CountsMemory : Row {
  template <typename Pool, typename Next>
  static cudaError_t Call(Pool& pool, const Engines& engines, const void*, const Next& next, size_t* free,
                          size_t* total) {
    const cudaError_t result = next(free, total);
    if (result == cudaSuccess) {
      pool.AddIdle(free, total);
      engines.AddDeviceStaging(free, total);
    }
    return result;
  }
};

struct Exports : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next,
                          cudaIpcMemHandle_t* handle, void* memory) {
    pool.Exports(memory);
    return next(handle, memory);
  }
};

struct Resets : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next) {
    return pool.DeviceReset(next);
  }
};

// As `Kind`, and what the call has left is looked at.
template <typename Kind>
struct AllocatesUnpooled : Row {
  template <typename Next, typename... Arguments>
  static cudaError_t Call(const Engines& engines, const void* real, const Next& next, Arguments... arguments) {
    NoPool none;
    const cudaError_t result = Kind::Call(none, engines, real, next, arguments...);
    engines.AfterAllocation();
    return result;
  }
};

struct CountsUnpooled : Row {
  template <typename Next>
  static cudaError_t Call(const Engines& engines, const void* real, const Next& next, size_t* free, size_t* total) {
    NoPool none;
    return CountsMemory::Call(none, engines, real, next, free, total);
  }
};

}  // namespace pooled

// Without a pool (allocator.mode = "off").
template <tracer::HookId kId>
struct Unpooled : pooled::NoRow {};
#define UNPOOLED(function)                  \
  template <>                               \
  struct Unpooled<tracer::HookId::function> \
      : pooled::AllocatesUnpooled<pooled::AllocatesBeside<tracer::HookId::function>> {};
UNPOOLED(cudaMalloc)
UNPOOLED(cudaMallocPitch)
UNPOOLED(cudaMalloc3D)
UNPOOLED(cudaMallocArray)
UNPOOLED(cudaMalloc3DArray)
UNPOOLED(cudaMallocMipmappedArray)
UNPOOLED(cudaMallocManaged)
UNPOOLED(cudaMallocAsync)
UNPOOLED(cudaMallocAsync_ptsz)
UNPOOLED(cudaMallocFromPoolAsync)
UNPOOLED(cudaMallocFromPoolAsync_ptsz)
UNPOOLED(cudaGraphInstantiate)
UNPOOLED(cudaGraphInstantiateWithFlags)
UNPOOLED(cudaGraphInstantiateWithParams)
UNPOOLED(cudaGraphInstantiateWithParams_ptsz)
UNPOOLED(cuMemAlloc_v2)
UNPOOLED(cuMemAllocPitch_v2)
UNPOOLED(cuMemAllocManaged)
UNPOOLED(cuArrayCreate_v2)
UNPOOLED(cuArray3DCreate_v2)
UNPOOLED(cuMipmappedArrayCreate)
UNPOOLED(cuMemAllocAsync)
UNPOOLED(cuMemAllocAsync_ptsz)
UNPOOLED(cuMemAllocFromPoolAsync)
UNPOOLED(cuMemAllocFromPoolAsync_ptsz)
UNPOOLED(cuGraphInstantiate_v1)
UNPOOLED(cuGraphInstantiate_v2)
UNPOOLED(cuGraphInstantiateWithFlags)
UNPOOLED(cuGraphInstantiateWithParams)
UNPOOLED(cuGraphInstantiateWithParams_ptsz)
#undef UNPOOLED
template <>
struct Unpooled<tracer::HookId::cuMemCreate>
    : pooled::AllocatesUnpooled<pooled::CreatesMemory<tracer::HookId::cuMemCreate>> {};
template <>
struct Unpooled<tracer::HookId::cudaMemGetInfo> : pooled::CountsUnpooled {};
template <>
struct Unpooled<tracer::HookId::cuMemGetInfo_v2> : pooled::CountsUnpooled {};

template <tracer::HookId kId>
struct AllocatorHook : pooled::NoRow {};

template <>
struct AllocatorHook<tracer::HookId::cudaMalloc> : pooled::Allocates {};
#define ALLOCATES_BESIDE(function) \
  template <>                      \
  struct AllocatorHook<tracer::HookId::function> : pooled::AllocatesBeside<tracer::HookId::function> {};
ALLOCATES_BESIDE(cudaMallocPitch)
ALLOCATES_BESIDE(cudaMalloc3D)
ALLOCATES_BESIDE(cudaMallocArray)
ALLOCATES_BESIDE(cudaMalloc3DArray)
ALLOCATES_BESIDE(cudaMallocMipmappedArray)
ALLOCATES_BESIDE(cudaMallocManaged)
ALLOCATES_BESIDE(cudaMallocAsync)
ALLOCATES_BESIDE(cudaMallocAsync_ptsz)
ALLOCATES_BESIDE(cudaMallocFromPoolAsync)
ALLOCATES_BESIDE(cudaMallocFromPoolAsync_ptsz)
ALLOCATES_BESIDE(cudaGraphInstantiate)
ALLOCATES_BESIDE(cudaGraphInstantiateWithFlags)
ALLOCATES_BESIDE(cudaGraphInstantiateWithParams)
ALLOCATES_BESIDE(cudaGraphInstantiateWithParams_ptsz)
#undef ALLOCATES_BESIDE
#define LAUNCHES_GRAPH(function) \
  template <>                    \
  struct AllocatorHook<tracer::HookId::function> : pooled::LaunchesGraph {};
LAUNCHES_GRAPH(cudaGraphLaunch)
LAUNCHES_GRAPH(cudaGraphLaunch_ptsz)
LAUNCHES_GRAPH(cudaGraphUpload)
LAUNCHES_GRAPH(cudaGraphUpload_ptsz)
LAUNCHES_GRAPH(cuGraphLaunch)
LAUNCHES_GRAPH(cuGraphLaunch_ptsz)
LAUNCHES_GRAPH(cuGraphUpload)
LAUNCHES_GRAPH(cuGraphUpload_ptsz)
#undef LAUNCHES_GRAPH
template <>
struct AllocatorHook<tracer::HookId::cudaDeviceSetLimit> : pooled::SetsLimit {};
template <>
struct AllocatorHook<tracer::HookId::cudaFree> : pooled::Frees {};
template <>
struct AllocatorHook<tracer::HookId::cudaMemGetInfo> : pooled::CountsMemory {};
template <>
struct AllocatorHook<tracer::HookId::cudaIpcGetMemHandle> : pooled::Exports {};
template <>
struct AllocatorHook<tracer::HookId::cudaDeviceReset> : pooled::Resets {};
template <>
struct AllocatorHook<tracer::HookId::cudaThreadExit> : pooled::Resets {};

}  // namespace slipstream::shim
