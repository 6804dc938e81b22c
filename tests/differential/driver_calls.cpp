#include "tests/differential/driver_calls.h"

#include <cuda.h>

namespace differential {
namespace {

template <typename Function>
Function* Found(Function* /* of this type */, const char* name) {
  void* function = nullptr;
  (void)cuGetProcAddress(name, &function, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  return reinterpret_cast<Function*>(function);
}

// The function by the operation's door. Names are macros in cuda.h: the linked one is the newest.
#define BY_DOOR(name) \
  (op.door == kByName ? [] {                      \
    static auto* const found = Found(&name, #name); \
    return found;                                 \
  }()                                             \
                      : &name)

CUdeviceptr AsNumber(const void* address) { return reinterpret_cast<uintptr_t>(address); }

CUfunction FunctionOf(const void* kernel) {
  cudaFunction_t function = nullptr;
  (void)cudaGetFuncBySymbol(&function, kernel);
  return function;
}

CUresult Allocate(const Op& op, const Operands& with) {
  CUdeviceptr address = 0;
  const CUresult result = op.kind == Kind::kMalloc ? BY_DOOR(cuMemAlloc)(&address, op.bytes)
                                                   : BY_DOOR(cuMemAllocAsync)(&address, op.bytes, with.stream);
  if (result == CUDA_SUCCESS) *with.made = reinterpret_cast<void*>(address);
  return result;
}

CUresult Make(const Op& op, const Operands& with) {
  const CUdeviceptr dst = AsNumber(with.dst);
  const CUdeviceptr src = AsNumber(with.src);
  switch (op.kind) {
    case Kind::kMalloc:
    case Kind::kMallocAsync:
      return Allocate(op, with);
    case Kind::kFree:
      return BY_DOOR(cuMemFree)(dst);
    case Kind::kFreeAsync:
      return BY_DOOR(cuMemFreeAsync)(dst, with.stream);
    case Kind::kPinned: {
      constexpr unsigned kFlags[] = {0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_WRITECOMBINED};
      return BY_DOOR(cuMemHostAlloc)(with.made, op.bytes, kFlags[op.flavor]);
    }
    case Kind::kFreeHost:
      return BY_DOOR(cuMemFreeHost)(with.dst);
    case Kind::kRegister:
      return BY_DOOR(cuMemHostRegister)(with.dst, op.bytes, 0);
    case Kind::kUnregister:
      return BY_DOOR(cuMemHostUnregister)(with.dst);
    case Kind::kStreamDestroy:
      return BY_DOOR(cuStreamDestroy)(with.stream);
    case Kind::kStreamSync:
      return BY_DOOR(cuStreamSynchronize)(with.stream);
    case Kind::kStreamQuery:
      return BY_DOOR(cuStreamQuery)(with.stream);
    case Kind::kStreamWait:
      return BY_DOOR(cuStreamWaitEvent)(with.stream, with.event, 0);
    case Kind::kEventDestroy:
      return BY_DOOR(cuEventDestroy)(with.event);
    case Kind::kEventRecord:
      return BY_DOOR(cuEventRecord)(with.event, with.stream);
    case Kind::kEventSync:
      return BY_DOOR(cuEventSynchronize)(with.event);
    case Kind::kEventQuery:
      return BY_DOOR(cuEventQuery)(with.event);
    case Kind::kElapsed: {
      float ms = 0;
      return BY_DOOR(cuEventElapsedTime)(&ms, with.event, with.end_event);
    }
    case Kind::kDeviceSync:
      return op.door == kByName ? Found<CUresult()>(nullptr, "cuCtxSynchronize")() : cuCtxSynchronize();
    case Kind::kCopyAsync:
      return BY_DOOR(cuMemcpyAsync)(dst, src, op.bytes, with.stream);
    case Kind::kCopy:
      return BY_DOOR(cuMemcpy)(dst, src, op.bytes);
    case Kind::kMemsetAsync:
      return BY_DOOR(cuMemsetD8Async)(dst, static_cast<unsigned char>(op.value), op.bytes, with.stream);
    case Kind::kMemset:
      return BY_DOOR(cuMemsetD8)(dst, static_cast<unsigned char>(op.value), op.bytes);
    case Kind::kKernel:
      return BY_DOOR(cuLaunchKernel)(FunctionOf(with.kernel), 1, 1, 1, 32, 1, 1, 0, with.stream, with.arguments,
                                     nullptr);
    case Kind::kHostFunction:
      return BY_DOOR(cuLaunchHostFunc)(with.stream, with.function, with.user_data);
    case Kind::kLaunch:
      return BY_DOOR(cuGraphLaunch)(with.exec, with.stream);
    case Kind::kExecDestroy:
      return BY_DOOR(cuGraphExecDestroy)(with.exec);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

cudaError_t ByDriver(const Op& op, const Operands& with) { return static_cast<cudaError_t>(Make(op, with)); }

}  // namespace differential
