// allocator_hooks.h for the driver's functions: the same pools. What differs is that a device address is a number.
//
// Threading: as allocator_hooks.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "shim/allocator_hooks.h"
#include "shim/driver_transfer_hooks.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

namespace pooled {

struct AllocatesAddress : Row {
  using Watched = AllocatesBeside<tracer::HookId::cuMemAlloc_v2>;
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void* real, const Next& next,
                          CUdeviceptr* memory, size_t bytes) {
    const auto by_pointer = [&next](void** address, size_t size) {
      return next(reinterpret_cast<CUdeviceptr*>(address), size);
    };
    static_assert(sizeof(CUdeviceptr) == sizeof(void*));
    return AllocatesAs<tracer::HookId::cuMemAlloc_v2>(pool, engines, real, by_pointer, reinterpret_cast<void**>(memory),
                                                      bytes);
  }
};

struct FreesAddress : Row {
  using Watched = NoRow;
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void* real, const Next& next,
                          CUdeviceptr memory) {
    const auto by_pointer = [&next](void* address) { return next(around::AsNumber(address)); };
    return Frees::Call(pool, engines, real, by_pointer, around::At(memory));
  }
};

struct ExportsAddress : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next,
                          CUipcMemHandle* handle, CUdeviceptr memory) {
    pool.Exports(around::At(memory));
    return next(handle, memory);
  }
};

// A file descriptor for a range of memory, by which other devices reach it.
struct ExportsRange : Row {
  template <typename Next, typename... Arguments>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, void* handle,
                          CUdeviceptr memory, Arguments... arguments) {
    pool.Exports(around::At(memory));
    return next(handle, memory, arguments...);
  }
};

struct ResetsPrimary : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, CUdevice device) {
    if (device < 0) return next(device);  // which the driver refuses
    return pool.DeviceReset([&] { return next(device); }, device);
  }
};

// Where the context was gone with this user, its blocks are too. Before the call nobody can tell.
struct ReleasesPrimary : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, CUdevice device) {
    const cudaError_t result = next(device);
    if (result != cudaSuccess || DriverLibrary::HasPrimaryContext(device)) return result;
    return pool.DeviceReset([result] { return result; }, device);
  }
};

}  // namespace pooled

#define POOLED(function, ...) \
  template <>                 \
  struct AllocatorHook<tracer::HookId::function> : pooled::__VA_ARGS__ {};
#define ALLOCATES_BESIDE(function) POOLED(function, AllocatesBeside<tracer::HookId::function>)

POOLED(cuMemAlloc_v2, AllocatesAddress)
ALLOCATES_BESIDE(cuMemAllocPitch_v2)
ALLOCATES_BESIDE(cuMemAllocManaged)
ALLOCATES_BESIDE(cuArrayCreate_v2)
ALLOCATES_BESIDE(cuArray3DCreate_v2)
ALLOCATES_BESIDE(cuMipmappedArrayCreate)
ALLOCATES_BESIDE(cuMemAllocAsync)
ALLOCATES_BESIDE(cuMemAllocAsync_ptsz)
ALLOCATES_BESIDE(cuMemAllocFromPoolAsync)
ALLOCATES_BESIDE(cuMemAllocFromPoolAsync_ptsz)
ALLOCATES_BESIDE(cuGraphInstantiate_v1)
ALLOCATES_BESIDE(cuGraphInstantiate_v2)
ALLOCATES_BESIDE(cuGraphInstantiateWithFlags)
ALLOCATES_BESIDE(cuGraphInstantiateWithParams)
ALLOCATES_BESIDE(cuGraphInstantiateWithParams_ptsz)
POOLED(cuCtxSetLimit, SetsLimit)
POOLED(cuMemCreate, CreatesMemory<tracer::HookId::cuMemCreate>)
POOLED(cuMemFree_v2, FreesAddress)
POOLED(cuMemGetInfo_v2, CountsMemory)
POOLED(cuIpcGetMemHandle, ExportsAddress)
POOLED(cuMemGetHandleForAddressRange, ExportsRange)
POOLED(cuDevicePrimaryCtxReset_v1, ResetsPrimary)
POOLED(cuDevicePrimaryCtxReset_v2, ResetsPrimary)
POOLED(cuDevicePrimaryCtxRelease_v1, ReleasesPrimary)
POOLED(cuDevicePrimaryCtxRelease_v2, ReleasesPrimary)

#undef POOLED
#undef ALLOCATES_BESIDE

}  // namespace slipstream::shim
