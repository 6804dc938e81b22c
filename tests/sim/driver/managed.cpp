// Hints about managed memory. The memory is ordinary host memory here, so a prefetch or an advice moves nothing; it is
// checked, takes its place in the stream, and is remembered for the questions.
#include <cstring>

#include "tests/sim/driver/use_context.h"

using namespace simcuda;

namespace {

Allocation* Managed(World& world, CUdeviceptr pointer, size_t count) {
  Allocation* allocation = FindAllocation(world, pointer);
  const bool inside = allocation != nullptr && allocation->kind == Allocation::Kind::kManaged &&
                      count <= allocation->bytes - (pointer - allocation->base);
  return inside ? allocation : nullptr;
}

// Plain host memory of a device that reaches it by itself takes every hint, and forgets it.
bool PageableHint(World& world, CUdeviceptr pointer) {
  bool known = false;
  Translate(world, pointer, 0, &known);
  return !known && DeviceReadsPageable(world);
}

CUresult Prefetch(CUdeviceptr pointer, size_t count, CUmemLocation location, CUstream handle) {
  SIM_USE_STREAM(handle)
  if (count > 0 && PageableHint(world, pointer)) {
    return Enqueue(world, stream, Work(), nullptr);
  }
  Allocation* allocation = Managed(world, pointer, count);
  if (allocation == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && (location.id < 0 || location.id >= kDeviceCount)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  allocation->last_prefetch = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
  return Enqueue(world, stream, Work(), nullptr);
}

CUmemLocation FromOrdinal(CUdevice device) {
  CUmemLocation location = {};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

CUresult Advise(CUdeviceptr pointer, size_t count, CUmem_advise advice, CUmemLocation location) {
  SIM_USE_CONTEXT()
  if (count > 0 && PageableHint(world, pointer)) {
    return CUDA_SUCCESS;
  }
  Allocation* allocation = Managed(world, pointer, count);
  if (allocation == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      allocation->read_mostly = true;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      allocation->read_mostly = false;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      allocation->preferred = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      allocation->preferred = CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Range(World& world, void* data, size_t size, CUmem_range_attribute attribute, CUdeviceptr pointer,
               size_t count) {
  const Allocation* allocation = Managed(world, pointer, count);
  if (allocation == nullptr || data == nullptr || size < 4) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int value = 0;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      value = allocation->read_mostly ? 1 : 0;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      value = allocation->preferred;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      value = allocation->last_prefetch;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

// Each range to its location; without locations only checked.
CUresult Batch(CUdeviceptr* pointers, size_t* sizes, size_t count, CUmemLocation* locations, size_t* location_starts,
               size_t location_count, CUstream handle) {
  if (count == 0 || pointers == nullptr || sizes == nullptr || (location_count > 0 && location_starts == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t location = 0;
  for (size_t i = 0; i < count; ++i) {
    while (location + 1 < location_count && location_starts[location + 1] <= i) {
      ++location;
    }
    SIM_TRY(
        Prefetch(pointers[i], sizes[i], location_count > 0 ? locations[location] : FromOrdinal(CU_DEVICE_CPU), handle))
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_DRIVER_PT(cuMemPrefetchAsync, 8000, cuMemPrefetchAsync, _ptsz,
              (CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
              (devPtr, count, dstDevice, hStream)) {
  return Prefetch(devPtr, count, FromOrdinal(dstDevice), hStream);
}
SIM_DRIVER_PT(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2, _ptsz,
              (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream),
              (devPtr, count, location, flags, hStream)) {
  return flags == 0 ? Prefetch(devPtr, count, location, hStream) : CUDA_ERROR_INVALID_VALUE;
}
SIM_DRIVER(cuMemAdvise, 8000, cuMemAdvise, (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device),
           (devPtr, count, advice, device)) {
  return Advise(devPtr, count, advice, FromOrdinal(device));
}
SIM_DRIVER(cuMemAdvise, 12020, cuMemAdvise_v2,
           (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location),
           (devPtr, count, advice, location)) {
  return Advise(devPtr, count, advice, location);
}
SIM_DRIVER_PT(cuMemPrefetchBatchAsync, 13000, cuMemPrefetchBatchAsync, _ptsz,
              (CUdeviceptr * dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
               size_t numPrefetchLocs, unsigned long long flags, CUstream hStream),
              (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream)) {
  if (flags != 0 || numPrefetchLocs == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, hStream);
}
SIM_DRIVER_PT(cuMemDiscardBatchAsync, 13000, cuMemDiscardBatchAsync, _ptsz,
              (CUdeviceptr * dptrs, size_t* sizes, size_t count, unsigned long long flags, CUstream hStream),
              (dptrs, sizes, count, flags, hStream)) {
  return flags == 0 ? Batch(dptrs, sizes, count, nullptr, nullptr, 0, hStream) : CUDA_ERROR_INVALID_VALUE;
}
SIM_DRIVER_PT(cuMemDiscardAndPrefetchBatchAsync, 13000, cuMemDiscardAndPrefetchBatchAsync, _ptsz,
              (CUdeviceptr * dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
               size_t numPrefetchLocs, unsigned long long flags, CUstream hStream),
              (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream)) {
  if (flags != 0 || numPrefetchLocs == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, hStream);
}
SIM_DRIVER_PT(cuStreamAttachMemAsync, 6000, cuStreamAttachMemAsync, _ptsz,
              (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags), (hStream, dptr, length, flags)) {
  SIM_USE_STREAM(hStream)
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (Managed(world, dptr, length) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Enqueue(world, stream, Work(), nullptr);
}
SIM_DRIVER(cuMemRangeGetAttribute, 8000, cuMemRangeGetAttribute,
           (void* data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count),
           (data, dataSize, attribute, devPtr, count)) {
  SIM_USE_CONTEXT()
  return Range(world, data, dataSize, attribute, devPtr, count);
}
SIM_DRIVER(cuMemRangeGetAttributes, 8000, cuMemRangeGetAttributes,
           (void** data, size_t* dataSizes, CUmem_range_attribute* attributes, size_t numAttributes, CUdeviceptr devPtr,
            size_t count),
           (data, dataSizes, attributes, numAttributes, devPtr, count)) {
  SIM_USE_CONTEXT()
  if (data == nullptr || dataSizes == nullptr || attributes == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < numAttributes; ++i) {
    SIM_TRY(Range(world, data[i], dataSizes[i], attributes[i], devPtr, count))
  }
  return CUDA_SUCCESS;
}
