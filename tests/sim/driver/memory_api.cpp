// Allocation, pinned and managed memory, and questions about pointers.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/driver/copy.h"
#include "tests/sim/driver/pool.h"
#include "tests/sim/driver/use_context.h"

using namespace simcuda;

namespace {

// Host memory of the simulator's own: pinned and managed.
Allocation* MapHost(World& world, Context* context, size_t bytes, Allocation::Kind kind, unsigned flags) {
  const size_t reserved = (bytes + kPage - 1) / kPage * kPage;
  if (reserved < bytes) {
    return nullptr;
  }
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  Allocation allocation;
  allocation.kind = kind;
  allocation.base = reinterpret_cast<uintptr_t>(memory);
  allocation.bytes = bytes;
  allocation.reserved = reserved;
  allocation.alias = static_cast<std::byte*>(memory);
  allocation.device = context->device->ordinal;
  allocation.context = context;
  allocation.flags = flags;
  allocation.id = world.next_id++;
  return &(world.allocations[allocation.base] = allocation);
}

Allocation* FindBase(World& world, uintptr_t base) {
  const auto found = world.allocations.find(base);
  return found == world.allocations.end() ? nullptr : &found->second;
}

// Frees of device memory wait for all that was submitted to its context. A copy between two devices that is on a stream
// of the other one is not waited for (measured).
CUresult WaitForContext(World& world, Lock& lock, Context* owner) {
  RunUntilDone(world, lock, PendingOf(world, owner));
  return owner->sticky;
}

// Frees of memory that every context reaches wait for them all.
CUresult WaitForAll(World& world, Lock& lock, const Context* owner) {
  RunUntilDone(world, lock, PendingOf(world, nullptr));
  return owner->sticky;
}

}  // namespace

SIM_DRIVER(cuMemGetInfo, 3020, cuMemGetInfo_v2, (size_t * free, size_t* total), (free, total)) {
  SIM_USE_CONTEXT()
  const Device& device = *context->device;
  if (free != nullptr) {
    *free = device.total_bytes - std::min(device.total_bytes, device.used_bytes);
  }
  if (total != nullptr) {
    *total = device.total_bytes;
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemAlloc, 3020, cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize)) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))
  if (dptr == nullptr || bytesize == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation* allocation = AllocateDevice(world, context, bytesize, Allocation::Kind::kDevice);
  if (allocation == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *dptr = allocation->base;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemAllocPitch, 3020, cuMemAllocPitch_v2,
           (CUdeviceptr * dptr, size_t* pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes),
           (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes)) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0 ||
      (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t pitch = (WidthInBytes + 511) / 512 * 512;
  const Allocation* allocation = AllocateDevice(world, context, pitch * Height, Allocation::Kind::kDevice);
  if (allocation == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *dptr = allocation->base;
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemFree, 3020, cuMemFree_v2, (CUdeviceptr dptr), (dptr)) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))  // NULL too (measured)
  if (dptr == 0) {
    return CUDA_SUCCESS;
  }
  const Allocation* allocation = FindBase(world, dptr);
  const bool ours = allocation != nullptr && !allocation->freed_in_stream &&
                    (allocation->kind == Allocation::Kind::kDevice || allocation->kind == Allocation::Kind::kManaged ||
                     allocation->kind == Allocation::Kind::kPooled);
  if (!ours) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (allocation->kind == Allocation::Kind::kPooled) {
    FreeNow(world, dptr);  // pool memory: waits for nothing (measured)
    return CUDA_SUCCESS;
  }
  const uint64_t id = allocation->id;
  Context* owner = allocation->context;
  // Not waited for, and the memory goes from under it: 719 from both devices, this call's included (measured, 580.159).
  if (const OpPtr copy = PendingCopyBetweenDevices(world, owner, *allocation)) {
    for (const auto& [address, side] : world.allocations) {
      if (address == copy->work.copy->dst || address == copy->work.copy->src)
        Fault(side.context, CUDA_ERROR_LAUNCH_FAILED);
    }
    Fault(copy->context, CUDA_ERROR_LAUNCH_FAILED);
    Fault(owner, CUDA_ERROR_LAUNCH_FAILED);
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  const bool managed = allocation->kind == Allocation::Kind::kManaged;
  const CUresult result = managed ? WaitForAll(world, lock, owner) : WaitForContext(world, lock, owner);
  // Another thread may have freed it in the meantime.
  allocation = FindBase(world, dptr);
  if (allocation == nullptr || allocation->id != id) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  FreeNow(world, dptr);
  return result;
}

SIM_DRIVER(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2, (CUdeviceptr * pbase, size_t* psize, CUdeviceptr dptr),
           (pbase, psize, dptr)) {
  SIM_USE_CONTEXT()
  const Allocation* allocation = FindAllocation(world, dptr);
  if (allocation == nullptr || allocation->kind == Allocation::Kind::kRegistered) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (pbase != nullptr) {
    *pbase = allocation->base;
  }
  if (psize != nullptr) {
    *psize = allocation->bytes;
  }
  return CUDA_SUCCESS;
}

// Whether so much host memory more can be pinned.
static bool CanPin(const World& world, size_t bytes) {
  size_t pinned = 0;
  for (const auto& [base, allocation] : world.allocations) {
    const bool counts =
        allocation.kind == Allocation::Kind::kPinned || allocation.kind == Allocation::Kind::kRegistered;
    pinned += counts ? allocation.reserved : 0;
  }
  const size_t limit = world.settings.pinnable_bytes;
  return pinned <= limit && bytes <= limit - pinned;
}

static CUresult AllocateHost(void** pp, size_t bytes, unsigned flags) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))
  if (pp == nullptr || bytes == 0 || flags > 7) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!CanPin(world, bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const Allocation* allocation = MapHost(world, context, bytes, Allocation::Kind::kPinned, flags);
  if (allocation == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pp = reinterpret_cast<void*>(allocation->base);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemHostAlloc, 2020, cuMemHostAlloc, (void** pp, size_t bytesize, unsigned int Flags),
           (pp, bytesize, Flags)) {
  return AllocateHost(pp, bytesize, Flags);
}
SIM_DRIVER(cuMemAllocHost, 3020, cuMemAllocHost_v2, (void** pp, size_t bytesize), (pp, bytesize)) {
  return AllocateHost(pp, bytesize, 0);
}

SIM_DRIVER(cuMemFreeHost, 2000, cuMemFreeHost, (void* p), (p)) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))
  if (p == nullptr) {
    return CUDA_SUCCESS;
  }
  const auto base = reinterpret_cast<uintptr_t>(p);
  const Allocation* allocation = FindBase(world, base);
  if (allocation == nullptr || allocation->kind != Allocation::Kind::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = WaitForAll(world, lock, allocation->context);
  ReleaseAllocation(world, base);
  return result;
}

static CUresult RegisterHost(void* p, size_t bytes, unsigned flags) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))
  const auto base = reinterpret_cast<uintptr_t>(p);
  constexpr unsigned kKnownFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (p == nullptr || bytes == 0 || base + bytes < base || (flags & ~kKnownFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto next = world.allocations.lower_bound(base);
  const bool overlaps_next = next != world.allocations.end() && next->first < base + bytes;
  if (overlaps_next || FindAllocation(world, base) != nullptr) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  if (!CanPin(world, bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Allocation allocation;
  allocation.kind = Allocation::Kind::kRegistered;
  allocation.base = base;
  allocation.bytes = allocation.reserved = bytes;
  allocation.alias = static_cast<std::byte*>(p);
  allocation.device = context->device->ordinal;
  allocation.context = context;
  allocation.flags = flags;
  allocation.id = world.next_id++;
  world.allocations[base] = allocation;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemHostRegister, 6050, cuMemHostRegister_v2, (void* p, size_t bytesize, unsigned int Flags),
           (p, bytesize, Flags)) {
  return RegisterHost(p, bytesize, Flags);
}

SIM_DRIVER(cuMemHostUnregister, 4000, cuMemHostUnregister, (void* p), (p)) {
  SIM_USE_CONTEXT()
  const auto base = reinterpret_cast<uintptr_t>(p);
  const Allocation* allocation = FindBase(world, base);
  if (allocation != nullptr && allocation->kind == Allocation::Kind::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (allocation == nullptr || allocation->kind != Allocation::Kind::kRegistered) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  SIM_TRY(CheckUnsafeCall(world))
  const CUresult result = WaitForAll(world, lock, allocation->context);
  ReleaseAllocation(world, base);
  return result;
}

SIM_DRIVER(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2,
           (CUdeviceptr * pdptr, void* p, unsigned int Flags), (pdptr, p, Flags)) {
  SIM_USE_CONTEXT()
  const Allocation* allocation = FindAllocation(world, reinterpret_cast<uintptr_t>(p));
  if (pdptr == nullptr || Flags != 0 || allocation == nullptr || !allocation->HostSide()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pdptr = reinterpret_cast<uintptr_t>(p);  // unified addressing: the same
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemHostGetFlags, 2030, cuMemHostGetFlags, (unsigned int* pFlags, void* p), (pFlags, p)) {
  SIM_USE_CONTEXT()
  const Allocation* allocation = FindAllocation(world, reinterpret_cast<uintptr_t>(p));
  // Of allocations only: registered memory has none (cuda.h).
  if (pFlags == nullptr || allocation == nullptr || allocation->kind != Allocation::Kind::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pFlags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addressing always mapped
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemAllocManaged, 6000, cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
           (dptr, bytesize, flags)) {
  SIM_USE_CONTEXT()
  SIM_TRY(CheckUnsafeCall(world))
  if (dptr == nullptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation* allocation = MapHost(world, context, bytesize, Allocation::Kind::kManaged, flags);
  if (allocation == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *dptr = allocation->base;
  return CUDA_SUCCESS;
}

namespace {

uint64_t AllowedHandleTypes(const Allocation& allocation) {
  if (allocation.pool != nullptr) {
    return allocation.pool->handle_types;
  }
  return allocation.physical != nullptr ? HandleTypesOf(allocation.physical) : CU_MEM_HANDLE_TYPE_NONE;
}

CUresult Attribute(World& world, CUpointer_attribute attribute, CUdeviceptr pointer, void* data) {
  const Allocation* allocation = FindAllocation(world, pointer);
  const bool host = allocation != nullptr && allocation->HostSide();
  const bool managed = allocation != nullptr && allocation->kind == Allocation::Kind::kManaged;
  const auto put = [data](auto value) { std::memcpy(data, &value, sizeof value); };
  if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) {
    put(static_cast<int>(allocation != nullptr && allocation->kind == Allocation::Kind::kDevice));
    return CUDA_SUCCESS;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) {
    put(static_cast<int>(allocation != nullptr));
    return CUDA_SUCCESS;
  }
  if (allocation == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      put(allocation->context);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put(static_cast<unsigned>(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put(pointer);
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && !managed) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      put(pointer);
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      put(static_cast<int>(allocation->sync_memops));
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put(static_cast<unsigned long long>(allocation->id));
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      put(static_cast<int>(managed));
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put(allocation->device);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
      uintptr_t base = allocation->base;
      size_t bytes = allocation->bytes;
      if (allocation->kind == Allocation::Kind::kMapped) {
        FindReservation(pointer, &base, &bytes);  // the whole reserved range, whatever is mapped of it (measured)
      }
      attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? put(bytes) : put(static_cast<CUdeviceptr>(base));
      break;
    }
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put(static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put(allocation->pool);
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      put(AllowedHandleTypes(*allocation));
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_DRIVER(cuPointerGetAttribute, 4000, cuPointerGetAttribute,
           (void* data, CUpointer_attribute attribute, CUdeviceptr ptr), (data, attribute, ptr)) {
  SIM_USE_CONTEXT()
  if (data == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Attribute(world, attribute, ptr, data);
}

// Unlike the singular: an attribute that does not apply is set to zero and is no error (cuda.h).
SIM_DRIVER(cuPointerGetAttributes, 7000, cuPointerGetAttributes,
           (unsigned int numAttributes, CUpointer_attribute* attributes, void** data, CUdeviceptr ptr),
           (numAttributes, attributes, data, ptr)) {
  SIM_USE_CONTEXT()
  if (attributes == nullptr || data == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < numAttributes; ++i) {
    if (Attribute(world, attributes[i], ptr, data[i]) == CUDA_SUCCESS) {
      continue;
    }
    const bool wide =
        attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
        attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER || attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
        attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
        attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    std::memset(data[i], 0, wide ? 8 : 4);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      const int none = -2;  // cudaInvalidDeviceId
      std::memcpy(data[i], &none, sizeof none);
    }
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuPointerSetAttribute, 6000, cuPointerSetAttribute,
           (const void* value, CUpointer_attribute attribute, CUdeviceptr ptr), (value, attribute, ptr)) {
  SIM_USE_CONTEXT()
  Allocation* allocation = FindAllocation(world, ptr);
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || allocation == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int flag = 0;
  std::memcpy(&flag, value, sizeof flag);
  allocation->sync_memops = flag != 0;
  return CUDA_SUCCESS;
}
