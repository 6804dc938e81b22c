// What the stream-ordered allocator does around a hooked call: which calls its heaps answer, and which it has to know
// of. The rules are the heaps' (allocator/stream_ordered.h); here is only who calls what, in the runtime's functions
// and the driver's.
//
// StreamOrderedHook<id>::Call stands in front of the call, which `next` makes: one that a heap answers never gets
// there, and counts for the transfer engine as some other call.
// Threading: any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "allocator/stream_ordered.h"
#include "shim/allocator_hooks.h"
#include "shim/engines.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

namespace ordered {

using allocator::StreamOrdered;

using pooled::AllocatesBeside;
using pooled::CountsMemory;
using pooled::NoRow;
using pooled::Row;

// The driver's functions have addresses as numbers.
inline void* Pointer(void* address) { return address; }
inline void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
inline void** Place(void** place) { return place; }
inline void** Place(CUdeviceptr* place) {
  static_assert(sizeof(CUdeviceptr) == sizeof(void*));
  return reinterpret_cast<void**>(place);
}

template <tracer::HookId kId, typename Make>
cudaError_t Again(StreamOrdered& heaps, const Engines& engines, const void* real, const Make& make) {
  const cudaError_t result = make();
  return pooled::AgainAfter<kId>(result, heaps, engines, real) ? make() : result;
}

template <tracer::HookId kId, bool kPerThread>
struct Allocates : Row {
  template <typename Next, typename Address, typename Stream>
  static cudaError_t Call(StreamOrdered& heaps, const Engines& engines, const void* real, const Next& next,
                          Address* memory, size_t bytes, Stream stream) {
    engines.OtherCall();
    return Again<kId>(heaps, engines, real, [&] {
      return heaps.Allocate([&] { return next(memory, bytes, stream); }, Place(memory), bytes, stream, kPerThread);
    });
  }
};

template <tracer::HookId kId, bool kPerThread>
struct AllocatesFrom : Row {
  template <typename Next, typename Address, typename Stream>
  static cudaError_t Call(StreamOrdered& heaps, const Engines& engines, const void* real, const Next& next,
                          Address* memory, size_t bytes, cudaMemPool_t pool, Stream stream) {
    engines.OtherCall();
    return Again<kId>(heaps, engines, real, [&] {
      return heaps.AllocateFrom([&] { return next(memory, bytes, pool, stream); }, Place(memory), bytes, pool, stream,
                                kPerThread);
    });
  }
};

template <bool kPerThread>
struct Frees : Row {
  template <typename Next, typename Address, typename Stream>
  static cudaError_t Call(StreamOrdered& heaps, const Engines& engines, const void*, const Next& next, Address memory,
                          Stream stream) {
    engines.OtherCall();
    return heaps.Free([&] { return next(memory, stream); }, Pointer(memory), stream, kPerThread);
  }
};

struct FreesNow : Row {
  template <typename Next, typename Address>
  static cudaError_t Call(StreamOrdered& heaps, const Engines& engines, const void*, const Next& next, Address memory) {
    engines.OtherCall();
    return heaps.FreeNow([&] { return next(memory); }, Pointer(memory));
  }
};

// The two enumerations have the same numbers.
struct GetsAttribute : Row {
  template <typename Next, typename Attribute>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, cudaMemPool_t pool,
                          Attribute attribute, void* value) {
    return heaps.GetAttribute([&] { return next(pool, attribute, value); }, pool,
                              static_cast<cudaMemPoolAttr>(attribute), value);
  }
};
struct SetsAttribute : Row {
  template <typename Next, typename Attribute>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, cudaMemPool_t pool,
                          Attribute attribute, void* value) {
    return heaps.SetAttribute([&] { return next(pool, attribute, value); }, pool,
                              static_cast<cudaMemPoolAttr>(attribute), value);
  }
};
struct Trims : Row {
  template <typename Next>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, cudaMemPool_t pool,
                          size_t keep_bytes) {
    return heaps.TrimTo([&] { return next(pool, keep_bytes); }, pool, keep_bytes);
  }
};
struct SetsAccess : Row {
  template <typename Next, typename Access>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, cudaMemPool_t pool,
                          const Access* access, size_t count) {
    static_assert(sizeof(Access) == sizeof(cudaMemAccessDesc));
    return heaps.SetAccess([&] { return next(pool, access, count); }, pool,
                           reinterpret_cast<const cudaMemAccessDesc*>(access), count);
  }
};
struct SetsPool : Row {
  template <typename Next>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, int device,
                          cudaMemPool_t pool) {
    const cudaError_t result = next(device, pool);
    if (result == cudaSuccess) heaps.PoolIsSet(device, pool);
    return result;
  }
};

struct EnablesPeer : Row {
  template <typename Next>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, int peer,
                          unsigned flags) {
    const cudaError_t result = next(peer, flags);
    if (result == cudaSuccess) heaps.PeerEnabled(peer);
    return result;
  }
};

struct CreatesStream : Row {
  template <typename Next, typename Stream, typename... Options>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, Stream* stream,
                          Options... options) {
    const cudaError_t result = next(stream, options...);
    if (result == cudaSuccess && stream != nullptr) heaps.StreamBegins(*stream);
    return result;
  }
};

struct Synchronizes : Row {
  template <typename Next>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next) {
    return heaps.Synchronize(next);
  }
};

struct DestroysStream : Row {
  template <typename Next, typename Stream>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, Stream stream) {
    heaps.StreamEnds(stream);
    return next(stream);
  }
};

struct Resets : Row {
  template <typename Next>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next) {
    return heaps.DeviceReset(next);
  }
  template <typename Next>
  static cudaError_t Call(StreamOrdered& heaps, const Engines&, const void*, const Next& next, CUdevice device) {
    if (device < 0) return next(device);  // which the driver refuses
    return heaps.DeviceReset([&] { return next(device); }, device);
  }
};

}  // namespace ordered

template <tracer::HookId kId>
struct StreamOrderedHook : ordered::NoRow {};

#define ORDERED(function, ...) \
  template <>                  \
  struct StreamOrderedHook<tracer::HookId::function> : ordered::__VA_ARGS__ {};
#define ALLOCATES(function)                                     \
  ORDERED(function, Allocates<tracer::HookId::function, false>) \
  ORDERED(function##_ptsz, Allocates<tracer::HookId::function##_ptsz, true>)
#define ALLOCATES_FROM(function)                                    \
  ORDERED(function, AllocatesFrom<tracer::HookId::function, false>) \
  ORDERED(function##_ptsz, AllocatesFrom<tracer::HookId::function##_ptsz, true>)
#define ALLOCATES_BESIDE(function) ORDERED(function, AllocatesBeside<tracer::HookId::function>)

ALLOCATES(cudaMallocAsync)
ALLOCATES_FROM(cudaMallocFromPoolAsync)
ALLOCATES_BESIDE(cudaMalloc)
ALLOCATES_BESIDE(cudaMallocPitch)
ALLOCATES_BESIDE(cudaMalloc3D)
ALLOCATES_BESIDE(cudaMallocArray)
ALLOCATES_BESIDE(cudaMalloc3DArray)
ALLOCATES_BESIDE(cudaMallocMipmappedArray)
ALLOCATES_BESIDE(cudaMallocManaged)
ORDERED(cudaFreeAsync, Frees<false>)
ORDERED(cudaFreeAsync_ptsz, Frees<true>)
ORDERED(cudaFree, FreesNow)
ORDERED(cudaMemPoolGetAttribute, GetsAttribute)
ORDERED(cudaMemPoolSetAttribute, SetsAttribute)
ORDERED(cudaMemPoolTrimTo, Trims)
ORDERED(cudaMemPoolSetAccess, SetsAccess)
ORDERED(cudaDeviceSetMemPool, SetsPool)
ORDERED(cudaDeviceEnablePeerAccess, EnablesPeer)
ORDERED(cudaDeviceSynchronize, Synchronizes)
ORDERED(cudaThreadSynchronize, Synchronizes)
ORDERED(cudaMemGetInfo, CountsMemory)
ORDERED(cudaStreamCreate, CreatesStream)
ORDERED(cudaStreamCreateWithFlags, CreatesStream)
ORDERED(cudaStreamCreateWithPriority, CreatesStream)
ORDERED(cudaStreamDestroy, DestroysStream)
ORDERED(cudaDeviceReset, Resets)
ORDERED(cudaThreadExit, Resets)

ALLOCATES(cuMemAllocAsync)
ALLOCATES_FROM(cuMemAllocFromPoolAsync)
ALLOCATES_BESIDE(cuMemAlloc_v2)
ALLOCATES_BESIDE(cuMemAllocPitch_v2)
ALLOCATES_BESIDE(cuMemAllocManaged)
ALLOCATES_BESIDE(cuArrayCreate_v2)
ALLOCATES_BESIDE(cuArray3DCreate_v2)
ALLOCATES_BESIDE(cuMipmappedArrayCreate)
ALLOCATES_BESIDE(cuMemCreate)
ORDERED(cuMemFreeAsync, Frees<false>)
ORDERED(cuMemFreeAsync_ptsz, Frees<true>)
ORDERED(cuMemFree_v2, FreesNow)
ORDERED(cuMemPoolGetAttribute, GetsAttribute)
ORDERED(cuMemPoolSetAttribute, SetsAttribute)
ORDERED(cuMemPoolTrimTo, Trims)
ORDERED(cuMemPoolSetAccess, SetsAccess)
ORDERED(cuDeviceSetMemPool, SetsPool)
ORDERED(cuCtxSynchronize, Synchronizes)
ORDERED(cuMemGetInfo_v2, CountsMemory)
ORDERED(cuStreamCreate, CreatesStream)
ORDERED(cuStreamCreateWithPriority, CreatesStream)
ORDERED(cuStreamDestroy_v2, DestroysStream)
ORDERED(cuDevicePrimaryCtxReset_v1, Resets)
ORDERED(cuDevicePrimaryCtxReset_v2, Resets)

#undef ORDERED
#undef ALLOCATES
#undef ALLOCATES_FROM
#undef ALLOCATES_BESIDE

}  // namespace slipstream::shim
