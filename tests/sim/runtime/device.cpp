// Devices, the current one, and versions.
#include <cstddef>
#include <cstring>

#include "tests/sim/runtime/entry.h"

using simrt::ThisThread;

namespace {

cudaError_t Init() { return CU(cuInit, 2000, 0u); }

// As the current context says, or, before there is one, as cudaSetDevice said.
int CurrentDevice() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (CU(cuCtxGetCurrent, 4000, &context) == cudaSuccess && context != nullptr &&
      CU(cuCtxGetDevice, 2000, &device) == cudaSuccess) {
    return device;
  }
  return ThisThread().device;
}

}  // namespace

SIM_RT_BARE(cudaGetDeviceCount, (int* count), (count)) {
  if (count == nullptr) {
    return cudaErrorInvalidValue;
  }
  // Known once it has been asked for, even in a forked child (measured).
  if (CU(cuDeviceGetCount, 2000, count) == cudaSuccess) {
    return cudaSuccess;
  }
  SIM_RT_TRY(Init())
  return CU(cuDeviceGetCount, 2000, count);
}

SIM_RT_BARE(cudaSetDevice, (int device), (device)) {
  SIM_RT_TRY(Init())
  int count = 0;
  SIM_RT_TRY(CU(cuDeviceGetCount, 2000, &count))
  if (device < 0 || device >= count) {
    return cudaErrorInvalidDevice;
  }
  ThisThread().device = device;
  // From CUDA 12 on the primary context is made here, not at the first use.
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, static_cast<CUcontext>(nullptr)))
  return simrt::EnsureContext();
}

SIM_RT_BARE(cudaInitDevice, (int device, unsigned int deviceFlags, unsigned int flags), (device, deviceFlags, flags)) {
  (void)deviceFlags;
  (void)flags;
  SIM_RT_TRY(Init())
  const int before = ThisThread().device;
  CUcontext context = nullptr;
  SIM_RT_TRY(CU(cuCtxGetCurrent, 4000, &context))
  ThisThread().device = device;
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, static_cast<CUcontext>(nullptr)))
  const cudaError_t result = simrt::EnsureContext();
  ThisThread().device = before;
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, context))
  return result;
}

SIM_RT_BARE(cudaGetDevice, (int* device), (device)) {
  SIM_RT_TRY(Init())
  if (device == nullptr) {
    return cudaErrorInvalidValue;
  }
  *device = CurrentDevice();
  return cudaSuccess;
}

SIM_RT_BARE(cudaDeviceReset, (), ()) {
  SIM_RT_TRY(Init())
  return CU(cuDevicePrimaryCtxReset, 11000, CurrentDevice());
}

SIM_RT(cudaDeviceSynchronize, (), ()) { return CU(cuCtxSynchronize, 2000); }

SIM_RT_BARE(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attr, int device), (value, attr, device)) {
  SIM_RT_TRY(Init())
  return CU(cuDeviceGetAttribute, 2000, value, static_cast<CUdevice_attribute>(attr), device);  // same numbers
}

SIM_RT_BARE(cudaDeviceGetPCIBusId, (char* pciBusId, int len, int device), (pciBusId, len, device)) {
  SIM_RT_TRY(Init())
  return CU(cuDeviceGetPCIBusId, 4010, pciBusId, len, device);
}

SIM_RT_BARE(cudaDeviceGetByPCIBusId, (int* device, const char* pciBusId), (device, pciBusId)) {
  SIM_RT_TRY(Init())
  return CU(cuDeviceGetByPCIBusId, 4010, device, pciBusId);
}

SIM_RT(cudaDeviceGetStreamPriorityRange, (int* leastPriority, int* greatestPriority),
       (leastPriority, greatestPriority)) {
  return CU(cuCtxGetStreamPriorityRange, 5050, leastPriority, greatestPriority);
}

SIM_RT(cudaDeviceSetLimit, (cudaLimit limit, size_t value), (limit, value)) {
  return CU(cuCtxSetLimit, 3010, static_cast<CUlimit>(limit), value);
}

SIM_RT(cudaDeviceGetLimit, (size_t * pValue, cudaLimit limit), (pValue, limit)) {
  return CU(cuCtxGetLimit, 3010, pValue, static_cast<CUlimit>(limit));
}

SIM_RT_BARE(cudaSetDeviceFlags, (unsigned int flags), (flags)) {
  SIM_RT_TRY(Init())
  return CU(cuDevicePrimaryCtxSetFlags, 11000, CurrentDevice(), flags);
}

SIM_RT_BARE(cudaGetDeviceFlags, (unsigned int* flags), (flags)) {
  SIM_RT_TRY(Init())
  int active = 0;
  return CU(cuDevicePrimaryCtxGetState, 7000, CurrentDevice(), flags, &active);
}

SIM_RT_BARE(cudaDriverGetVersion, (int* driverVersion), (driverVersion)) {
  return CU(cuDriverGetVersion, 2020, driverVersion);
}

SIM_RT_BARE(cudaRuntimeGetVersion, (int* runtimeVersion), (runtimeVersion)) {
  if (runtimeVersion == nullptr) {
    return cudaErrorInvalidValue;
  }
  *runtimeVersion = SIM_CUDART == 12 ? 12080 : 13000;
  return cudaSuccess;
}

SIM_RT_BARE(cudaProfilerStart, (), ()) {
  SIM_RT_TRY(Init())
  return CU(cuProfilerStart, 4000);
}
SIM_RT_BARE(cudaProfilerStop, (), ()) {
  SIM_RT_TRY(Init())
  return CU(cuProfilerStop, 4000);
}

namespace {

// The fields of cudaDeviceProp that programs print; the rest is zero.
template <typename Properties>
cudaError_t FillProperties(Properties* properties, int device) {
  if (properties == nullptr) {
    return cudaErrorInvalidValue;
  }
  SIM_RT_TRY(Init())
  std::memset(static_cast<void*>(properties), 0, sizeof *properties);
  SIM_RT_TRY(CU(cuDeviceGetName, 2000, properties->name, static_cast<int>(sizeof properties->name), device))
  SIM_RT_TRY(CU(cuDeviceGetUuid, 11040, reinterpret_cast<CUuuid*>(&properties->uuid), device))
  SIM_RT_TRY(CU(cuDeviceTotalMem, 3020, &properties->totalGlobalMem, device))
  const auto attribute = [device](CUdevice_attribute which) {
    int value = 0;
    CU(cuDeviceGetAttribute, 2000, &value, which, device);
    return value;
  };
  properties->sharedMemPerBlock = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  properties->warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties->maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  properties->maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  properties->maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  properties->maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  properties->maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  properties->maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  properties->unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  properties->managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  properties->concurrentManagedAccess = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  properties->pageableMemoryAccess = attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  properties->canMapHostMemory = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  properties->asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  properties->concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  properties->maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  properties->maxBlocksPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  properties->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  properties->totalConstMem = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY));
  properties->sharedMemPerMultiprocessor =
      static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  properties->sharedMemPerBlockOptin =
      static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  properties->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  properties->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  properties->memPitch = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
  properties->textureAlignment = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
  properties->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  properties->streamPrioritiesSupported = attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  properties->cooperativeLaunch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  properties->hostRegisterSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  properties->memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  return cudaSuccess;
}

}  // namespace

#if SIM_CUDART == 12
namespace {

// cudaDeviceProp as CUDA 12 lays it out (13 dropped fields in the middle); names as there, in order.
struct Properties12 {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int textures_and_surfaces[40];  // maxTexture1D to maxSurfaceCubemapLayered
  size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int rest[71];
};
// As the headers of CUDA 12.8 give them.
static_assert(sizeof(Properties12) == 1032);
static_assert(offsetof(Properties12, major) == 360 && offsetof(Properties12, surfaceAlignment) == 568);
static_assert(offsetof(Properties12, maxThreadsPerMultiProcessor) == 624);
static_assert(offsetof(Properties12, memoryPoolsSupported) == 744);

}  // namespace
SIM_RT_EXPORT cudaError_t cudaGetDeviceProperties_v2(Properties12* prop, int device){
    SIM_RT_BODY("cudaGetDeviceProperties_v2", false, false, FillProperties(prop, device))}
#else
SIM_RT_BARE(cudaGetDeviceProperties, (cudaDeviceProp * prop, int device), (prop, device)) {
  return FillProperties(prop, device);
}
#endif
