// Launches, and what the compiler's start-up code registers.
#include <mutex>
#include <vector>

#include "tests/sim/runtime/entry.h"

using simrt::StreamOf;

// crt/host_runtime.h declares these for the compiler only.
SIM_RT_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                                             size_t sharedMem, cudaStream_t stream);
SIM_RT_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entryFuncAddr);

namespace {

cudaError_t Function(const void* host_function, CUfunction* function) {
  void* found = nullptr;
  if (simrt::TheDriver().find_function(host_function, &found) != 0) {
    return cudaErrorInvalidDeviceFunction;
  }
  *function = static_cast<CUfunction>(found);
  return cudaSuccess;
}

// An invalid shape is a configuration error in the runtime's words.
cudaError_t AsLaunchError(cudaError_t error) {
  return error == cudaErrorInvalidValue ? cudaErrorInvalidConfiguration : error;
}

cudaError_t LaunchFunction(CUfunction function, dim3 grid, dim3 block, void** args, size_t shared,
                           cudaStream_t stream) {
  return AsLaunchError(CU(cuLaunchKernel, 4000, function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                          static_cast<unsigned>(shared), StreamOf(stream), args, static_cast<void**>(nullptr)));
}

cudaError_t Launch(const void* host_function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(host_function, &function))
  return LaunchFunction(function, grid, block, args, shared, stream);
}

}  // namespace

SIM_RT_PT(cudaLaunchKernel, _ptsz,
          (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem, cudaStream_t stream),
          (func, gridDim, blockDim, args, sharedMem, stream)) {
  return Launch(func, gridDim, blockDim, args, sharedMem, stream);
}

SIM_RT_PT(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t* config, const void* func, void** args),
          (config, func, args)) {
  if (config == nullptr) {
    return cudaErrorInvalidValue;
  }
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  CUlaunchConfig driver = {};
  driver.gridDimX = config->gridDim.x;
  driver.gridDimY = config->gridDim.y;
  driver.gridDimZ = config->gridDim.z;
  driver.blockDimX = config->blockDim.x;
  driver.blockDimY = config->blockDim.y;
  driver.blockDimZ = config->blockDim.z;
  driver.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  driver.hStream = StreamOf(config->stream);
  driver.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
  driver.numAttrs = config->numAttrs;
  return AsLaunchError(CU(cuLaunchKernelEx, 11060, &driver, function, args, static_cast<void**>(nullptr)));
}

SIM_RT_PT(cudaLaunchCooperativeKernel, _ptsz,
          (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem, cudaStream_t stream),
          (func, gridDim, blockDim, args, sharedMem, stream)) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  return AsLaunchError(CU(cuLaunchCooperativeKernel, 9000, function, gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                          blockDim.y, blockDim.z, static_cast<unsigned>(sharedMem), StreamOf(stream), args));
}

#if SIM_CUDART == 12
// cudaLaunchParams as CUDA 12 has it; one launch per entry, in order.
struct LaunchParams12 {
  void* func;
  dim3 gridDim;
  dim3 blockDim;
  void** args;
  size_t sharedMem;
  cudaStream_t stream;
};
SIM_RT_AS(cudaLaunchCooperativeKernelMultiDevice, (LaunchParams12 * list, unsigned int count, unsigned int flags),
          (list, count, flags)) {
  (void)flags;
  for (unsigned i = 0; i < count; ++i) {
    SIM_RT_TRY(Launch(list[i].func, list[i].gridDim, list[i].blockDim, list[i].args, list[i].sharedMem, list[i].stream))
  }
  return cudaSuccess;
}
#endif

SIM_RT_PT(__cudaLaunchKernel, _ptsz,
          (cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem, cudaStream_t stream),
          (kernel, gridDim, blockDim, args, sharedMem, stream)) {
  return LaunchFunction(reinterpret_cast<CUfunction>(kernel), gridDim, blockDim, args, sharedMem, stream);
}

SIM_RT_BARE(__cudaGetKernel, (cudaKernel_t * kernel, const void* entryFuncAddr), (kernel, entryFuncAddr)) {
  return Function(entryFuncAddr, reinterpret_cast<CUfunction*>(kernel));
}
SIM_RT_BARE(cudaGetKernel, (cudaKernel_t * kernelPtr, const void* entryFuncAddr), (kernelPtr, entryFuncAddr)) {
  return Function(entryFuncAddr, reinterpret_cast<CUfunction*>(kernelPtr));
}
SIM_RT_BARE(cudaGetFuncBySymbol, (cudaFunction_t * functionPtr, const void* symbolPtr), (functionPtr, symbolPtr)) {
  return Function(symbolPtr, reinterpret_cast<CUfunction*>(functionPtr));
}

SIM_RT_PT(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t fn, void* userData), (stream, fn, userData)) {
  return CU(cuLaunchHostFunc, 10000, StreamOf(stream), fn, userData);
}

#if SIM_CUDART == 13
// Of CUDA 13.2. How the device waits for the host meanwhile is its own affair.
SIM_RT_AS_PT(cudaLaunchHostFunc_v2, _ptsz,
             (cudaStream_t stream, cudaHostFn_t fn, void* userData, unsigned int syncMode),
             (stream, fn, userData, syncMode)) {
  (void)syncMode;
  return CU(cuLaunchHostFunc, 10000, StreamOf(stream), fn, userData);
}
#endif

SIM_RT_PT(cudaStreamAddCallback, _ptsz,
          (cudaStream_t stream, cudaStreamCallback_t callback, void* userData, unsigned int flags),
          (stream, callback, userData, flags)) {
  return CU(cuStreamAddCallback, 5000, StreamOf(stream), reinterpret_cast<CUstreamCallback>(callback), userData, flags);
}

SIM_RT(cudaFuncGetAttributes, (cudaFuncAttributes * attr, const void* func), (attr, func)) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  *attr = {};
  SIM_RT_TRY(CU(cuFuncGetAttribute, 2020, &attr->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, function))
  return CU(cuFuncGetAttribute, 2020, &attr->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
}

SIM_RT(cudaFuncSetAttribute, (const void* func, cudaFuncAttribute attr, int value), (func, attr, value)) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  return CU(cuFuncSetAttribute, 9000, function, static_cast<CUfunction_attribute>(attr), value);
}

SIM_RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
       (int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize),
       (numBlocks, func, blockSize, dynamicSMemSize)) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  return CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, numBlocks, function, blockSize, dynamicSMemSize);
}

SIM_RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       (int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize, unsigned int flags),
       (numBlocks, func, blockSize, dynamicSMemSize, flags)) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  return CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, numBlocks, function, blockSize, dynamicSMemSize,
            flags);
}

SIM_RT(cudaFuncGetName, (const char** name, const void* func), (name, func)) {
  CUfunction function = nullptr;
  SIM_RT_TRY(Function(func, &function))
  return CU(cuFuncGetName, 12030, name, function);
}

// ---- registration
namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};
std::vector<Configuration>& Configurations() {
  static thread_local std::vector<Configuration> configurations;
  return configurations;
}

}  // namespace

#define SIM_RT_COUNT(name)                                \
  static void* const counter = simrt::FindCounter(#name); \
  const simrt::Entry entry(counter, false);

SIM_RT_EXPORT unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, cudaStream_t stream) {
  SIM_RT_COUNT(__cudaPushCallConfiguration)
  Configurations().push_back({gridDim, blockDim, sharedMem, stream});
  return 0;
}

SIM_RT_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream) {
  SIM_RT_COUNT(__cudaPopCallConfiguration)
  if (Configurations().empty()) {
    return entry.Finish(cudaErrorMissingConfiguration);
  }
  const Configuration top = Configurations().back();
  Configurations().pop_back();
  *gridDim = top.grid;
  *blockDim = top.block;
  *sharedMem = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

// Bodies come from simRegisterKernel: device code in the fat binary is of no use here. A kernel that is only there is
// known, and a launch of it is defined (simSetEmptyKernels).
SIM_RT_EXPORT void** __cudaRegisterFatBinary(void* fatCubin) {
  SIM_RT_COUNT(__cudaRegisterFatBinary)
  return new void*(fatCubin);
}
SIM_RT_EXPORT void __cudaRegisterFatBinaryEnd(void** fatCubinHandle) {
  SIM_RT_COUNT(__cudaRegisterFatBinaryEnd)
  (void)fatCubinHandle;
}
SIM_RT_EXPORT void __cudaUnregisterFatBinary(void** fatCubinHandle) {
  SIM_RT_COUNT(__cudaUnregisterFatBinary)
  if (simrt::TheDriver().unregister_compiled != nullptr) {
    simrt::TheDriver().unregister_compiled(fatCubinHandle);
  }
  delete fatCubinHandle;
}
SIM_RT_EXPORT void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char* deviceFun,
                                          const char* deviceName, int thread_limit, uint3* tid, uint3* bid, dim3* bDim,
                                          dim3* gDim, int* wSize) {
  SIM_RT_COUNT(__cudaRegisterFunction)
  if (simrt::TheDriver().register_compiled != nullptr) {
    simrt::TheDriver().register_compiled(fatCubinHandle, hostFun, deviceName);
  }
  (void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
}
SIM_RT_EXPORT void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char* deviceAddress, const char* deviceName,
                                     int ext, size_t size, int constant, int global) {
  SIM_RT_COUNT(__cudaRegisterVar)
  (void)fatCubinHandle, (void)deviceAddress, (void)ext, (void)constant, (void)global;
  if (simrt::TheDriver().register_variable != nullptr) {
    simrt::TheDriver().register_variable(hostVar, deviceName, size);
  }
}
// The variable is there once a context is; the host's shadow holds its address then.
SIM_RT_EXPORT void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char* deviceAddress,
                                            const char* deviceName, int ext, size_t size, int constant, int global) {
  SIM_RT_COUNT(__cudaRegisterManagedVar)
  (void)fatCubinHandle, (void)deviceAddress, (void)deviceName, (void)ext, (void)constant, (void)global;
  simrt::AddManagedVariable(hostVarPtrAddress, size);
}
SIM_RT_EXPORT char __cudaInitModule(void** fatCubinHandle) {
  SIM_RT_COUNT(__cudaInitModule)
  (void)fatCubinHandle;
  return 1;
}
