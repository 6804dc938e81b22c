#include "cuda/memory_kind.h"

#include <array>

namespace slipstream::cuda {
namespace {

MemoryKind Kind(unsigned type, unsigned managed) {
  if (managed != 0) return MemoryKind::kManaged;
  switch (type) {
    case 0:
      return MemoryKind::kPageable;
    case CU_MEMORYTYPE_HOST:
      return MemoryKind::kHost;
    case CU_MEMORYTYPE_DEVICE:
      return MemoryKind::kDevice;
    default:
      return MemoryKind::kUnknown;
  }
}

}  // namespace

// cuPointerGetAttributes, unlike its singular, answers success and zeros for memory that is nobody's (cuda.h).
MemoryKind KindOf(const Driver& driver, const void* address) {
  unsigned type = 0;
  unsigned managed = 0;
  std::array attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  std::array<void*, 2> values = {&type, &managed};
  if (driver.cuPointerGetAttributes(2, attributes.data(), values.data(), reinterpret_cast<CUdeviceptr>(address)) !=
      CUDA_SUCCESS) {
    return MemoryKind::kUnknown;
  }
  return Kind(type, managed);
}

bool IsDeviceMemory(const Driver& driver, CUdeviceptr address) {
  return KindOf(driver, reinterpret_cast<const void*>(address)) == MemoryKind::kDevice;
}

Destination DestinationAt(const Driver& driver, CUdeviceptr address, size_t bytes, CUdevice device, CUcontext context) {
  unsigned type = 0;
  unsigned managed = 0;
  unsigned sync_memops = 0;
  unsigned legacy_ipc = 0;
  int ordinal = -1;
  CUcontext owner = nullptr;
  CUmemoryPool pool = nullptr;
  CUdeviceptr begin = 0;
  size_t size = 0;
  std::array attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                           CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                           CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT,
                           CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                           CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, attributes.size()> values = {&type,  &managed, &sync_memops, &legacy_ipc, &ordinal,
                                                 &owner, &pool,    &begin,       &size};
  if (driver.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(), address) != CUDA_SUCCESS) {
    return {};
  }
  Destination destination;
  const bool same_context = owner == nullptr || owner == context;
  const bool inside = address >= begin && bytes <= size && address - begin <= size - bytes;
  destination.plain =
      Kind(type, managed) == MemoryKind::kDevice && sync_memops == 0 && ordinal == device && same_context && inside;
  destination.shareable_only = legacy_ipc == 0 && pool == nullptr;
  // Memory mapped by hand answers with its whole reservation, mapped or not: at least the end must be there too.
  if (destination.plain && destination.shareable_only) {
    destination.plain = IsDeviceMemory(driver, address + bytes - 1);
  }
  return destination;
}

}  // namespace slipstream::cuda
