// Stream-ordered allocation, memory pools, peers, IPC.
#include <cstring>

#include "tests/sim/runtime/entry.h"

using simrt::Address;
using simrt::Slot;
using simrt::StreamOf;

SIM_RT_PT(cudaMallocAsync, _ptsz, (void** devPtr, size_t size, cudaStream_t hStream), (devPtr, size, hStream)) {
  if (devPtr == nullptr) {
    return cudaErrorInvalidValue;
  }
  return CU(cuMemAllocAsync, 11020, Slot(devPtr), size, StreamOf(hStream));
}
SIM_RT_PT(cudaMallocFromPoolAsync, _ptsz, (void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
          (ptr, size, memPool, stream)) {
  if (ptr == nullptr) {
    return cudaErrorInvalidValue;
  }
  return CU(cuMemAllocFromPoolAsync, 11020, Slot(ptr), size, memPool, StreamOf(stream));
}
SIM_RT_PT(cudaFreeAsync, _ptsz, (void* devPtr, cudaStream_t hStream), (devPtr, hStream)) {
  return CU(cuMemFreeAsync, 11020, Address(devPtr), StreamOf(hStream));
}

SIM_RT(cudaMemPoolCreate, (cudaMemPool_t * memPool, const cudaMemPoolProps* poolProps), (memPool, poolProps)) {
  if (poolProps == nullptr) {
    return cudaErrorInvalidValue;
  }
  CUmemPoolProps driver = {};
  driver.allocType = static_cast<CUmemAllocationType>(poolProps->allocType);
  driver.handleTypes = static_cast<CUmemAllocationHandleType>(poolProps->handleTypes);
  driver.location.type = static_cast<CUmemLocationType>(poolProps->location.type);
  driver.location.id = poolProps->location.id;
  driver.maxSize = poolProps->maxSize;
  return CU(cuMemPoolCreate, 11020, memPool, &driver);
}
SIM_RT(cudaMemPoolDestroy, (cudaMemPool_t memPool), (memPool)) { return CU(cuMemPoolDestroy, 11020, memPool); }
SIM_RT(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep), (memPool, minBytesToKeep)) {
  return CU(cuMemPoolTrimTo, 11020, memPool, minBytesToKeep);
}
SIM_RT(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value), (memPool, attr, value)) {
  return CU(cuMemPoolSetAttribute, 11020, memPool, static_cast<CUmemPool_attribute>(attr), value);
}
SIM_RT(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value), (memPool, attr, value)) {
  return CU(cuMemPoolGetAttribute, 11020, memPool, static_cast<CUmemPool_attribute>(attr), value);
}
SIM_RT(cudaMemPoolSetAccess, (cudaMemPool_t memPool, const cudaMemAccessDesc* descList, size_t count),
       (memPool, descList, count)) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  return CU(cuMemPoolSetAccess, 11020, memPool, reinterpret_cast<const CUmemAccessDesc*>(descList), count);
}
SIM_RT(cudaMemPoolGetAccess, (cudaMemAccessFlags * flags, cudaMemPool_t memPool, cudaMemLocation* location),
       (flags, memPool, location)) {
  return CU(cuMemPoolGetAccess, 11020, reinterpret_cast<CUmemAccess_flags*>(flags), memPool,
            reinterpret_cast<CUmemLocation*>(location));
}
SIM_RT(cudaMemPoolExportToShareableHandle,
       (void* shareableHandle, cudaMemPool_t memPool, cudaMemAllocationHandleType handleType, unsigned int flags),
       (shareableHandle, memPool, handleType, flags)) {
  return CU(cuMemPoolExportToShareableHandle, 11020, shareableHandle, memPool,
            static_cast<CUmemAllocationHandleType>(handleType), static_cast<unsigned long long>(flags));
}
SIM_RT(cudaMemPoolImportFromShareableHandle,
       (cudaMemPool_t * memPool, void* shareableHandle, cudaMemAllocationHandleType handleType, unsigned int flags),
       (memPool, shareableHandle, handleType, flags)) {
  return CU(cuMemPoolImportFromShareableHandle, 11020, memPool, shareableHandle,
            static_cast<CUmemAllocationHandleType>(handleType), static_cast<unsigned long long>(flags));
}
SIM_RT(cudaMemPoolExportPointer, (cudaMemPoolPtrExportData * exportData, void* ptr), (exportData, ptr)) {
  return CU(cuMemPoolExportPointer, 11020, reinterpret_cast<CUmemPoolPtrExportData*>(exportData), Address(ptr));
}
SIM_RT(cudaMemPoolImportPointer, (void** ptr, cudaMemPool_t memPool, cudaMemPoolPtrExportData* exportData),
       (ptr, memPool, exportData)) {
  return CU(cuMemPoolImportPointer, 11020, Slot(ptr), memPool, reinterpret_cast<CUmemPoolPtrExportData*>(exportData));
}
SIM_RT(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device), (memPool, device)) {
  return CU(cuDeviceGetDefaultMemPool, 11020, memPool, device);
}
SIM_RT(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device), (memPool, device)) {
  return CU(cuDeviceGetMemPool, 11020, memPool, device);
}
SIM_RT(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool), (device, memPool)) {
  return CU(cuDeviceSetMemPool, 11020, device, memPool);
}
#if SIM_CUDART != 12
SIM_RT(cudaMemGetDefaultMemPool, (cudaMemPool_t * memPool, cudaMemLocation* location, cudaMemAllocationType type),
       (memPool, location, type)) {
  return CU(cuMemGetDefaultMemPool, 13000, memPool, reinterpret_cast<CUmemLocation*>(location),
            static_cast<CUmemAllocationType>(type));
}
SIM_RT(cudaMemGetMemPool, (cudaMemPool_t * memPool, cudaMemLocation* location, cudaMemAllocationType type),
       (memPool, location, type)) {
  return CU(cuMemGetMemPool, 13000, memPool, reinterpret_cast<CUmemLocation*>(location),
            static_cast<CUmemAllocationType>(type));
}
SIM_RT(cudaMemSetMemPool, (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t memPool),
       (location, type, memPool)) {
  return CU(cuMemSetMemPool, 13000, reinterpret_cast<CUmemLocation*>(location), static_cast<CUmemAllocationType>(type),
            memPool);
}
#endif
SIM_RT(cudaDeviceGraphMemTrim, (int device), (device)) { return CU(cuDeviceGraphMemTrim, 11040, device); }
SIM_RT(cudaDeviceGetGraphMemAttribute, (int device, cudaGraphMemAttributeType attr, void* value),
       (device, attr, value)) {
  return CU(cuDeviceGetGraphMemAttribute, 11040, device, static_cast<CUgraphMem_attribute>(attr), value);
}
SIM_RT(cudaDeviceSetGraphMemAttribute, (int device, cudaGraphMemAttributeType attr, void* value),
       (device, attr, value)) {
  return CU(cuDeviceSetGraphMemAttribute, 11040, device, static_cast<CUgraphMem_attribute>(attr), value);
}

// ---- peers
SIM_RT_BARE(cudaDeviceCanAccessPeer, (int* canAccessPeer, int device, int peerDevice),
            (canAccessPeer, device, peerDevice)) {
  SIM_RT_TRY(CU(cuInit, 2000, 0u))
  return CU(cuDeviceCanAccessPeer, 4000, canAccessPeer, device, peerDevice);
}
SIM_RT(cudaDeviceGetP2PAttribute, (int* value, cudaDeviceP2PAttr attr, int srcDevice, int dstDevice),
       (value, attr, srcDevice, dstDevice)) {
  return CU(cuDeviceGetP2PAttribute, 8000, value, static_cast<CUdevice_P2PAttribute>(attr), srcDevice, dstDevice);
}

namespace {

// The primary context of the peer; enabling and disabling access needs it to exist.
cudaError_t PeerContext(int device, CUcontext* context) {
  SIM_RT_TRY(CU(cuDevicePrimaryCtxRetain, 7000, context, device))
  return cudaSuccess;
}

}  // namespace

SIM_RT(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags), (peerDevice, flags)) {
  CUcontext peer = nullptr;
  SIM_RT_TRY(PeerContext(peerDevice, &peer))
  return CU(cuCtxEnablePeerAccess, 4000, peer, flags);
}
SIM_RT(cudaDeviceDisablePeerAccess, (int peerDevice), (peerDevice)) {
  CUcontext peer = nullptr;
  SIM_RT_TRY(PeerContext(peerDevice, &peer))
  return CU(cuCtxDisablePeerAccess, 4000, peer);
}

// ---- IPC
static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));

SIM_RT(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* devPtr), (handle, devPtr)) {
  return CU(cuIpcGetMemHandle, 4010, reinterpret_cast<CUipcMemHandle*>(handle), Address(devPtr));
}
SIM_RT(cudaIpcOpenMemHandle, (void** devPtr, cudaIpcMemHandle_t handle, unsigned int flags), (devPtr, handle, flags)) {
  CUipcMemHandle driver;
  std::memcpy(&driver, &handle, sizeof driver);
  return CU(cuIpcOpenMemHandle, 11000, Slot(devPtr), driver, flags);
}
SIM_RT(cudaIpcCloseMemHandle, (void* devPtr), (devPtr)) { return CU(cuIpcCloseMemHandle, 4010, Address(devPtr)); }
SIM_RT(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), (handle, event)) {
  return CU(cuIpcGetEventHandle, 4010, reinterpret_cast<CUipcEventHandle*>(handle), event);
}
SIM_RT(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle), (event, handle)) {
  CUipcEventHandle driver;
  std::memcpy(&driver, &handle, sizeof driver);
  return CU(cuIpcOpenEventHandle, 4010, event, driver);
}
