// Allocation, pinned memory, pointers, managed memory.
#include <cstddef>
#include <cstring>

#include "tests/sim/runtime/entry.h"

using simrt::Address;
using simrt::Slot;

namespace {

CUmemLocation Location(const cudaMemLocation& location) {
  CUmemLocation driver = {};
  driver.type = static_cast<CUmemLocationType>(location.type);
  driver.id = location.id;
  return driver;
}

}  // namespace

SIM_RT(cudaMalloc, (void** devPtr, size_t size), (devPtr, size)) {
  if (devPtr == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (size == 0) {
    *devPtr = nullptr;
    return cudaSuccess;
  }
  return CU(cuMemAlloc, 3020, Slot(devPtr), size);
}

SIM_RT(cudaMallocPitch, (void** devPtr, size_t* pitch, size_t width, size_t height), (devPtr, pitch, width, height)) {
  if (devPtr == nullptr || pitch == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (width == 0 || height == 0) {
    *devPtr = nullptr;
    *pitch = 0;
    return cudaSuccess;
  }
  return CU(cuMemAllocPitch, 3020, Slot(devPtr), pitch, width, height, 4u);
}

SIM_RT(cudaMalloc3D, (cudaPitchedPtr * pitchedDevPtr, cudaExtent extent), (pitchedDevPtr, extent)) {
  if (pitchedDevPtr == nullptr) {
    return cudaErrorInvalidValue;
  }
  *pitchedDevPtr = {nullptr, 0, extent.width, extent.height};
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) {
    return cudaSuccess;
  }
  return CU(cuMemAllocPitch, 3020, Slot(&pitchedDevPtr->ptr), &pitchedDevPtr->pitch, extent.width,
            extent.height * extent.depth, 4u);
}

SIM_RT(cudaFree, (void* devPtr), (devPtr)) { return CU(cuMemFree, 3020, Address(devPtr)); }

static cudaError_t HostAlloc(void** pointer, size_t size, unsigned flags) {
  if (pointer == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (size == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  return CU(cuMemHostAlloc, 2020, pointer, size, flags);
}

SIM_RT(cudaMallocHost, (void** ptr, size_t size), (ptr, size)) { return HostAlloc(ptr, size, 0); }
SIM_RT(cudaHostAlloc, (void** pHost, size_t size, unsigned int flags), (pHost, size, flags)) {
  return HostAlloc(pHost, size, flags);
}
SIM_RT(cudaFreeHost, (void* ptr), (ptr)) { return CU(cuMemFreeHost, 2000, ptr); }
SIM_RT(cudaHostRegister, (void* ptr, size_t size, unsigned int flags), (ptr, size, flags)) {
  return CU(cuMemHostRegister, 6050, ptr, size, flags);
}
SIM_RT(cudaHostUnregister, (void* ptr), (ptr)) { return CU(cuMemHostUnregister, 4000, ptr); }
SIM_RT(cudaHostGetDevicePointer, (void** pDevice, void* pHost, unsigned int flags), (pDevice, pHost, flags)) {
  return CU(cuMemHostGetDevicePointer, 3020, Slot(pDevice), pHost, flags);
}
SIM_RT(cudaHostGetFlags, (unsigned int* pFlags, void* pHost), (pFlags, pHost)) {
  return CU(cuMemHostGetFlags, 2030, pFlags, pHost);
}

// No library of kernels has a managed variable here.
SIM_RT_AS(cudaLibraryGetManaged, (void** dptr, size_t* bytes, void* library, const char* name),
          (dptr, bytes, library, name)) {
  (void)dptr, (void)bytes, (void)library, (void)name;
  return cudaErrorSymbolNotFound;
}
SIM_RT(cudaMallocManaged, (void** devPtr, size_t size, unsigned int flags), (devPtr, size, flags)) {
  if (devPtr == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (size == 0) {
    *devPtr = nullptr;  // measured
    return cudaSuccess;
  }
  return CU(cuMemAllocManaged, 6000, Slot(devPtr), size, flags);
}

SIM_RT(cudaMemGetInfo, (size_t * free, size_t* total), (free, total)) { return CU(cuMemGetInfo, 3020, free, total); }

SIM_RT(cudaPointerGetAttributes, (cudaPointerAttributes * attributes, const void* ptr), (attributes, ptr)) {
  if (attributes == nullptr) {
    return cudaErrorInvalidValue;
  }
  unsigned type = 0;
  int device = 0;
  int managed = 0;
  void* device_pointer = nullptr;
  void* host_pointer = nullptr;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* data[] = {&type, &device, &managed, &device_pointer, &host_pointer};
  SIM_RT_TRY(CU(cuPointerGetAttributes, 7000, 5u, which, data, Address(ptr)))
  // Up to CUDA 12 the structure ends with hostPointer: what CUDA 13 has behind it would be the program's own memory.
  constexpr size_t kBytes =
      SIM_CUDART == 12 ? offsetof(cudaPointerAttributes, hostPointer) + sizeof(void*) : sizeof(cudaPointerAttributes);
  std::memset(attributes, 0, kBytes);
  attributes->device = device;
  attributes->devicePointer = device_pointer;
  attributes->hostPointer = host_pointer;
  if (managed != 0) {
    attributes->type = cudaMemoryTypeManaged;
  } else if (type == CU_MEMORYTYPE_HOST) {
    attributes->type = cudaMemoryTypeHost;
  } else if (type == CU_MEMORYTYPE_DEVICE) {
    attributes->type = cudaMemoryTypeDevice;
  } else {
    // Unknown to CUDA is no error from CUDA 11 on.
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    attributes->hostPointer = const_cast<void*>(ptr);
  }
  return cudaSuccess;
}

SIM_RT_PT(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t stream, void* devPtr, size_t length, unsigned int flags),
          (stream, devPtr, length, flags)) {
  return CU(cuStreamAttachMemAsync, 6000, simrt::StreamOf(stream), Address(devPtr), length, flags);
}

SIM_RT(cudaMemRangeGetAttribute,
       (void* data, size_t dataSize, cudaMemRangeAttribute attribute, const void* devPtr, size_t count),
       (data, dataSize, attribute, devPtr, count)) {
  return CU(cuMemRangeGetAttribute, 8000, data, dataSize, static_cast<CUmem_range_attribute>(attribute),
            Address(devPtr), count);
}
SIM_RT(cudaMemRangeGetAttributes,
       (void** data, size_t* dataSizes, cudaMemRangeAttribute* attributes, size_t numAttributes, const void* devPtr,
        size_t count),
       (data, dataSizes, attributes, numAttributes, devPtr, count)) {
  return CU(cuMemRangeGetAttributes, 8000, data, dataSizes, reinterpret_cast<CUmem_range_attribute*>(attributes),
            numAttributes, Address(devPtr), count);
}

namespace {

cudaError_t Prefetch(const void* pointer, size_t count, const cudaMemLocation& location, unsigned flags,
                     cudaStream_t stream) {
  return CU(cuMemPrefetchAsync, 12020, Address(pointer), count, Location(location), flags, simrt::StreamOf(stream));
}
cudaError_t Advise(const void* pointer, size_t count, cudaMemoryAdvise advice, const cudaMemLocation& location) {
  return CU(cuMemAdvise, 12020, Address(pointer), count, static_cast<CUmem_advise>(advice), Location(location));
}

}  // namespace

#if SIM_CUDART == 12
namespace {

cudaMemLocation FromOrdinal(int device) {
  cudaMemLocation location = {};
  location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;  // cudaCpuDeviceId is -1
  location.id = device < 0 ? 0 : device;
  return location;
}

}  // namespace

SIM_RT_AS_PT(cudaMemPrefetchAsync, _ptsz, (const void* devPtr, size_t count, int dstDevice, cudaStream_t stream),
             (devPtr, count, dstDevice, stream)) {
  return Prefetch(devPtr, count, FromOrdinal(dstDevice), 0, stream);
}
SIM_RT_AS_PT(cudaMemPrefetchAsync_v2, _ptsz,
             (const void* devPtr, size_t count, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
             (devPtr, count, location, flags, stream)) {
  return Prefetch(devPtr, count, location, flags, stream);
}
SIM_RT_AS(cudaMemAdvise, (const void* devPtr, size_t count, cudaMemoryAdvise advice, int device),
          (devPtr, count, advice, device)) {
  return Advise(devPtr, count, advice, FromOrdinal(device));
}
SIM_RT_AS(cudaMemAdvise_v2, (const void* devPtr, size_t count, cudaMemoryAdvise advice, cudaMemLocation location),
          (devPtr, count, advice, location)) {
  return Advise(devPtr, count, advice, location);
}
#else
SIM_RT_PT(cudaMemPrefetchAsync, _ptsz,
          (const void* devPtr, size_t count, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
          (devPtr, count, location, flags, stream)) {
  return Prefetch(devPtr, count, location, flags, stream);
}
SIM_RT(cudaMemAdvise, (const void* devPtr, size_t count, cudaMemoryAdvise advice, cudaMemLocation location),
       (devPtr, count, advice, location)) {
  return Advise(devPtr, count, advice, location);
}
SIM_RT_PT(cudaMemPrefetchBatchAsync, _ptsz,
          (void** dptrs, size_t* sizes, size_t count, cudaMemLocation* prefetchLocs, size_t* prefetchLocIdxs,
           size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
          (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, stream)) {
  return CU(cuMemPrefetchBatchAsync, 13000, Slot(dptrs), sizes, count, reinterpret_cast<CUmemLocation*>(prefetchLocs),
            prefetchLocIdxs, numPrefetchLocs, flags, simrt::StreamOf(stream));
}
SIM_RT_PT(cudaMemDiscardBatchAsync, _ptsz,
          (void** dptrs, size_t* sizes, size_t count, unsigned long long flags, cudaStream_t stream),
          (dptrs, sizes, count, flags, stream)) {
  return CU(cuMemDiscardBatchAsync, 13000, Slot(dptrs), sizes, count, flags, simrt::StreamOf(stream));
}
SIM_RT_PT(cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
          (void** dptrs, size_t* sizes, size_t count, cudaMemLocation* prefetchLocs, size_t* prefetchLocIdxs,
           size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
          (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, stream)) {
  return CU(cuMemDiscardAndPrefetchBatchAsync, 13000, Slot(dptrs), sizes, count,
            reinterpret_cast<CUmemLocation*>(prefetchLocs), prefetchLocIdxs, numPrefetchLocs, flags,
            simrt::StreamOf(stream));
}
#endif
