// Stream-ordered allocation and memory pools.
//
// The address is given out at the call, and the memory is filled with garbage when the allocation runs in its stream:
// work elsewhere that does not wait for it is found out. A block freed in a stream goes to the next allocation of its
// size in that stream at once, as on a device. A pool here keeps no memory back: what is freed is free when the free
// has run.
#include "tests/sim/driver/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/driver/graph.h"
#include "tests/sim/driver/use_context.h"

namespace simcuda {

void FreeNow(World& world, uintptr_t base) {
  const auto found = world.allocations.find(base);
  if (found == world.allocations.end()) {
    return;
  }
  if (Pool* pool = found->second.pool) {
    pool->used -= std::min<uint64_t>(pool->used, found->second.reserved);
  }
  ReleaseAllocation(world, base);
}

}  // namespace simcuda

using namespace simcuda;

namespace {

Pool* NewPool(World& world, int device, bool is_default) {
  auto pool = std::make_unique<Pool>();
  pool->device = device;
  pool->is_default = is_default;
  Pool* handle = pool.get();
  world.pools[handle] = std::move(pool);
  return handle;
}

Pool* DefaultPool(World& world, int device) {
  Device& owner = world.devices[device];
  if (owner.default_pool == nullptr) {
    owner.default_pool = owner.current_pool = NewPool(world, device, true);
  }
  return owner.default_pool;
}

Pool* CurrentPool(World& world, int device) {
  DefaultPool(world, device);
  return world.devices[device].current_pool;
}

Pool* FindPool(World& world, CUmemoryPool handle) {
  const auto found = world.pools.find(reinterpret_cast<Pool*>(handle));
  return found != world.pools.end() ? found->first : nullptr;
}

CUmemoryPool Handle(Pool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

// Fills the block when it becomes the stream's. Another allocation may have the address by then: `id` tells.
Work FillWork(uintptr_t base, uint64_t id) {
  Work work;
  work.kind = Work::Kind::kAlloc;
  work.memory = base;
  work.body = [base, id](Op&) {
    World& world = TheWorld();
    const Allocation* allocation = FindAllocation(world, base);
    if (allocation != nullptr && allocation->id == id) {
      Poison(world, allocation->alias, allocation->reserved, 0xA5);
    }
  };
  return work;
}

Allocation* ReuseOwn(World& world, Pool* pool, const StreamPtr& stream, size_t bytes) {
  const size_t reserved = (bytes + 511) / 512 * 512;
  for (auto& [base, allocation] : world.allocations) {
    // Not for fewer bytes than it has: pending work on the old allocation would reach past the end of the new one.
    if (allocation.pool == pool && allocation.freed_in_stream && allocation.freed_in == stream->id &&
        allocation.reserved == reserved && allocation.bytes <= bytes) {
      return &allocation;
    }
  }
  return nullptr;
}

CUresult AllocateInStream(CUdeviceptr* out, size_t bytes, Pool* wanted, CUstream handle) {
  SIM_USE_STREAM(handle)
  if (out == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes == 0) {
    *out = 0;  // measured: success and NULL
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    Work work;
    std::shared_ptr<GraphMemory> memory;
    SIM_TRY(MakeAllocWork(world, stream->context, bytes, &work, &memory))
    GraphNode* node = nullptr;
    const uintptr_t base = memory->base;
    SIM_TRY(CaptureWork(stream, std::move(work), &node))
    node->memory = memory;
    *out = base;
    return CUDA_SUCCESS;
  }
  SIM_TRY(CheckNotCapturing(world, stream))
  Pool* pool = wanted != nullptr ? wanted : CurrentPool(world, stream->context->device->ordinal);
  Allocation* allocation = ReuseOwn(world, pool, stream, bytes);
  if (allocation == nullptr) {
    allocation = AllocateDevice(world, stream->context, bytes, Allocation::Kind::kPooled);
    if (allocation == nullptr) {
      // Frees that are pending may bring memory: what a device does too before it gives up.
      RunUntilDone(world, lock, PendingOf(world, nullptr));
      allocation = AllocateDevice(world, stream->context, bytes, Allocation::Kind::kPooled);
    }
    if (allocation == nullptr) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->used += allocation->reserved;
  }
  allocation->bytes = bytes;
  allocation->pool = pool;
  allocation->freed_in_stream = false;
  allocation->id = world.next_id++;
  pool->used_high = std::max(pool->used_high, pool->used);
  *out = allocation->base;
  return Enqueue(world, stream, FillWork(allocation->base, allocation->id), nullptr);
}

}  // namespace

SIM_DRIVER_PT(cuMemAllocAsync, 11020, cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
              (dptr, bytesize, hStream)) {
  return AllocateInStream(dptr, bytesize, nullptr, hStream);
}

SIM_DRIVER_PT(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync, _ptsz,
              (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
              (dptr, bytesize, pool, hStream)) {
  Pool* wanted = nullptr;
  {
    World& world = TheWorld();
    Lock lock(world.mutex);
    wanted = FindPool(world, pool);
  }
  return wanted != nullptr ? AllocateInStream(dptr, bytesize, wanted, hStream) : CUDA_ERROR_INVALID_VALUE;
}

SIM_DRIVER_PT(cuMemFreeAsync, 11020, cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream)) {
  SIM_USE_STREAM(hStream)
  if (dptr == 0) {
    return CUDA_SUCCESS;
  }
  const auto found = world.allocations.find(dptr);
  if (found == world.allocations.end() || found->second.freed_in_stream ||
      (found->second.kind != Allocation::Kind::kPooled && found->second.kind != Allocation::Kind::kDevice)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->capture) {
    GraphNode* node = nullptr;
    return CaptureWork(stream, MakeFreeWork(dptr), &node);
  }
  SIM_TRY(CheckNotCapturing(world, stream))
  Allocation& allocation = found->second;
  allocation.freed_in_stream = true;
  allocation.freed_in = stream->id;
  Work work;
  work.kind = Work::Kind::kFree;
  work.memory = dptr;
  work.body = [dptr, id = allocation.id](Op&) {
    World& owner = TheWorld();
    const Allocation* now = FindAllocation(owner, dptr);
    if (now != nullptr && now->id == id && now->freed_in_stream) {
      FreeNow(owner, dptr);
    }
  };
  return Enqueue(world, stream, std::move(work), nullptr);
}

// ---- pools
SIM_DRIVER(cuMemPoolCreate, 11020, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps* poolProps),
           (pool, poolProps)) {
  SIM_USE_CONTEXT()
  if (pool == nullptr || poolProps == nullptr || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE || poolProps->location.id < 0 ||
      poolProps->location.id >= kDeviceCount) {
    return CUDA_ERROR_NOT_SUPPORTED;  // README.md: pools on devices only
  }
  Pool* made = NewPool(world, poolProps->location.id, false);
  made->handle_types = poolProps->handleTypes;
  *pool = Handle(made);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemPoolDestroy, 11020, cuMemPoolDestroy, (CUmemoryPool pool), (pool)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, pool);
  if (found == nullptr || found->is_default) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Live allocations stay; the device falls back to its default pool.
  for (auto& [base, allocation] : world.allocations) {
    if (allocation.pool == found) {
      allocation.pool = nullptr;
    }
  }
  for (Device& device : world.devices) {
    if (device.current_pool == found) {
      device.current_pool = device.default_pool;
    }
  }
  world.pools.erase(found);
  return CUDA_SUCCESS;
}

// What a process gives away of its pools. Nobody can take it: another process's pools are not there (README.md).
SIM_DRIVER(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle,
           (void* handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, unsigned long long flags),
           (handle_out, pool, handleType, flags)) {
  SIM_USE_CONTEXT()
  const Pool* found = FindPool(world, pool);
  if (found == nullptr || handle_out == nullptr || flags != 0 ||
      handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (found->handle_types & handleType) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = memfd_create("simcuda-pool", MFD_CLOEXEC);
  if (file < 0) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  std::memcpy(handle_out, &file, sizeof file);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer,
           (CUmemPoolPtrExportData * shareData_out, CUdeviceptr ptr), (shareData_out, ptr)) {
  SIM_USE_CONTEXT()
  Allocation* allocation = FindAllocation(world, ptr);
  if (shareData_out == nullptr || allocation == nullptr || allocation->pool == nullptr ||
      allocation->pool->handle_types == CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  allocation->exported = true;
  *shareData_out = {};
  std::memcpy(shareData_out->reserved, &allocation->id, sizeof allocation->id);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo, (CUmemoryPool pool, size_t minBytesToKeep),
           (pool, minBytesToKeep)) {
  SIM_USE_CONTEXT()
  (void)minBytesToKeep;
  SIM_TRY(CheckUnsafeCall(world))
  return FindPool(world, pool) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_DRIVER(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute,
           (CUmemoryPool pool, CUmemPool_attribute attr, void* value), (pool, attr, value)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, pool);
  if (found == nullptr || value == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t wide = 0;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
      int flag = 0;
      std::memcpy(&flag, value, sizeof flag);
      found->reuse_attributes[attr] = flag;
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&found->release_threshold, value, sizeof found->release_threshold);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      std::memcpy(&wide, value, sizeof wide);
      if (wide != 0) {
        return CUDA_ERROR_INVALID_VALUE;  // a high mark can only be reset
      }
      found->used_high = found->used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SIM_DRIVER(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute,
           (CUmemoryPool pool, CUmemPool_attribute attr, void* value), (pool, attr, value)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, pool);
  if (found == nullptr || value == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t wide = 0;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
      const auto set = found->reuse_attributes.find(attr);
      const int flag = set != found->reuse_attributes.end() ? set->second : 1;
      std::memcpy(value, &flag, sizeof flag);
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      wide = found->release_threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      wide = found->used;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      wide = found->used_high;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(value, &wide, sizeof wide);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc* map, size_t count),
           (pool, map, count)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, pool);
  if (found == nullptr || map == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const int device = map[i].location.id;
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || device < 0 || device >= kDeviceCount) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    found->access[device] = map[i].flags;
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess,
           (CUmemAccess_flags * flags, CUmemoryPool memPool, CUmemLocation* location), (flags, memPool, location)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, memPool);
  if (found == nullptr || flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
      location->id < 0 || location->id >= kDeviceCount) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = location->id == found->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : found->access[location->id];
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool, (CUmemoryPool * pool_out, CUdevice dev),
           (pool_out, dev)) {
  SIM_USE_CONTEXT()
  if (pool_out == nullptr || dev < 0 || dev >= kDeviceCount) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool_out = Handle(DefaultPool(world, dev));
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice dev), (pool, dev)) {
  SIM_USE_CONTEXT()
  if (pool == nullptr || dev < 0 || dev >= kDeviceCount) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool = Handle(CurrentPool(world, dev));
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool pool), (dev, pool)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, pool);
  if (found == nullptr || dev < 0 || dev >= kDeviceCount || found->device != dev) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  DefaultPool(world, dev);
  world.devices[dev].current_pool = found;
  return CUDA_SUCCESS;
}

static bool IsDeviceLocation(const CUmemLocation* location, CUmemAllocationType type) {
  return location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
         location->id < kDeviceCount && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

SIM_DRIVER(cuMemGetDefaultMemPool, 13000, cuMemGetDefaultMemPool,
           (CUmemoryPool * pool_out, CUmemLocation* location, CUmemAllocationType type), (pool_out, location, type)) {
  SIM_USE_CONTEXT()
  if (pool_out == nullptr || !IsDeviceLocation(location, type)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool_out = Handle(DefaultPool(world, location->id));
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemGetMemPool, 13000, cuMemGetMemPool,
           (CUmemoryPool * pool, CUmemLocation* location, CUmemAllocationType type), (pool, location, type)) {
  SIM_USE_CONTEXT()
  if (pool == nullptr || !IsDeviceLocation(location, type)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pool = Handle(CurrentPool(world, location->id));
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemSetMemPool, 13000, cuMemSetMemPool,
           (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool), (location, type, pool)) {
  SIM_USE_CONTEXT()
  Pool* found = FindPool(world, pool);
  if (!IsDeviceLocation(location, type) || found == nullptr || found->device != location->id) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  DefaultPool(world, location->id);
  world.devices[location->id].current_pool = found;
  return CUDA_SUCCESS;
}

// Memory of graphs is held by the graphs (graph.h): there is nothing to trim and nothing to count here.
SIM_DRIVER(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim, (CUdevice device), (device)) {
  SIM_USE_CONTEXT()
  return device >= 0 && device < kDeviceCount ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
SIM_DRIVER(cuDeviceGetGraphMemAttribute, 11040, cuDeviceGetGraphMemAttribute,
           (CUdevice device, CUgraphMem_attribute attr, void* value), (device, attr, value)) {
  SIM_USE_CONTEXT()
  if (device < 0 || device >= kDeviceCount || value == nullptr || attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  cuuint64_t used = 0;
  for (const auto& [base, allocation] : world.allocations) {
    if (allocation.kind == Allocation::Kind::kPooled && allocation.pool == nullptr && allocation.device == device) {
      used += allocation.reserved;
    }
  }
  std::memcpy(value, &used, sizeof used);
  return CUDA_SUCCESS;
}
SIM_DRIVER(cuDeviceSetGraphMemAttribute, 11040, cuDeviceSetGraphMemAttribute,
           (CUdevice device, CUgraphMem_attribute attr, void* value), (device, attr, value)) {
  SIM_USE_CONTEXT()
  (void)value;
  const bool high = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  return device >= 0 && device < kDeviceCount && high ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
