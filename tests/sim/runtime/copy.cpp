// Copies and memsets. The kind of a copy decides the driver function, as in the real library.
#include "tests/sim/runtime/entry.h"
#include "tests/sim/runtime/symbol.h"

using simrt::Address;

namespace {

cudaError_t Copy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return CU_PTDS(cuMemcpyHtoD, 3020, Address(dst), src, count);
    case cudaMemcpyDeviceToHost:
      return CU_PTDS(cuMemcpyDtoH, 3020, dst, Address(src), count);
    case cudaMemcpyDeviceToDevice:
      return CU_PTDS(cuMemcpyDtoD, 3020, Address(dst), Address(src), count);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return CU_PTDS(cuMemcpy, 4000, Address(dst), Address(src), count);
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t CopyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t runtime_stream) {
  const CUstream stream = simrt::StreamOf(runtime_stream);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return CU(cuMemcpyHtoDAsync, 3020, Address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
      return CU(cuMemcpyDtoHAsync, 3020, dst, Address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
      return CU(cuMemcpyDtoDAsync, 3020, Address(dst), Address(src), count, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return CU(cuMemcpyAsync, 4000, Address(dst), Address(src), count, stream);
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

// Memory types of both sides of a copy; an unknown kind is an error.
bool Types(cudaMemcpyKind kind, CUmemorytype* dst, CUmemorytype* src) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      *dst = CU_MEMORYTYPE_DEVICE;
      *src = CU_MEMORYTYPE_HOST;
      return true;
    case cudaMemcpyDeviceToHost:
      *dst = CU_MEMORYTYPE_HOST;
      *src = CU_MEMORYTYPE_DEVICE;
      return true;
    case cudaMemcpyDeviceToDevice:
      *dst = *src = CU_MEMORYTYPE_DEVICE;
      return true;
    case cudaMemcpyHostToHost:
      *dst = *src = CU_MEMORYTYPE_HOST;
      return true;
    case cudaMemcpyDefault:
      *dst = *src = CU_MEMORYTYPE_UNIFIED;
      return true;
    default:
      return false;
  }
}

cudaError_t Describe2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  *copy = {};
  if (!Types(kind, &copy->dstMemoryType, &copy->srcMemoryType)) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (dpitch < width || spitch < width) {
    return cudaErrorInvalidPitchValue;
  }
  copy->dstHost = dst;
  copy->dstDevice = Address(dst);
  copy->dstPitch = dpitch;
  copy->srcHost = src;
  copy->srcDevice = Address(src);
  copy->srcPitch = spitch;
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

// The structures of copies between two devices name their fields as those of others do.
template <typename Parms, typename Description>
cudaError_t DescribePlaces(const Parms* p, Description* copy) {
  *copy = {};
  if (p == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (p->srcArray != nullptr || p->dstArray != nullptr) {
    return cudaErrorNotSupported;  // README.md: no arrays
  }
  copy->srcXInBytes = p->srcPos.x;
  copy->srcY = p->srcPos.y;
  copy->srcZ = p->srcPos.z;
  copy->srcDevice = Address(p->srcPtr.ptr);
  copy->srcPitch = p->srcPtr.pitch;
  copy->srcHeight = p->srcPtr.ysize;
  copy->dstXInBytes = p->dstPos.x;
  copy->dstY = p->dstPos.y;
  copy->dstZ = p->dstPos.z;
  copy->dstDevice = Address(p->dstPtr.ptr);
  copy->dstPitch = p->dstPtr.pitch;
  copy->dstHeight = p->dstPtr.ysize;
  copy->WidthInBytes = p->extent.width;
  copy->Height = p->extent.height;
  copy->Depth = p->extent.depth;
  return cudaSuccess;
}

cudaError_t Describe3D(const cudaMemcpy3DParms* p, CUDA_MEMCPY3D* copy) {
  SIM_RT_TRY(DescribePlaces(p, copy))
  copy->srcHost = p->srcPtr.ptr;
  copy->dstHost = p->dstPtr.ptr;
  return Types(p->kind, &copy->dstMemoryType, &copy->srcMemoryType) ? cudaSuccess : cudaErrorInvalidMemcpyDirection;
}

cudaError_t DescribePeer(const cudaMemcpy3DPeerParms* p, CUDA_MEMCPY3D_PEER* copy) {
  SIM_RT_TRY(DescribePlaces(p, copy))
  copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
  return cudaSuccess;
}

// Contexts of two devices, made if need be; kept for good.
cudaError_t PeerContexts(int first, int second, CUcontext* first_context, CUcontext* second_context) {
  SIM_RT_TRY(CU(cuDevicePrimaryCtxRetain, 7000, first_context, first))
  SIM_RT_TRY(CU(cuDevicePrimaryCtxRetain, 7000, second_context, second))
  CU(cuDevicePrimaryCtxRelease, 11000, second);
  CU(cuDevicePrimaryCtxRelease, 11000, first);
  return cudaSuccess;
}

}  // namespace

SIM_RT_PT(cudaMemcpy, _ptds, (void* dst, const void* src, size_t count, cudaMemcpyKind kind), (dst, src, count, kind)) {
  return Copy(dst, src, count, kind);
}

SIM_RT_PT(cudaMemcpyAsync, _ptsz, (void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream),
          (dst, src, count, kind, stream)) {
  return CopyAsync(dst, src, count, kind, stream);
}

SIM_RT_PT(cudaMemcpy2D, _ptds,
          (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, cudaMemcpyKind kind),
          (dst, dpitch, src, spitch, width, height, kind)) {
  CUDA_MEMCPY2D copy;
  SIM_RT_TRY(Describe2D(dst, dpitch, src, spitch, width, height, kind, &copy))
  return CU_PTDS(cuMemcpy2DUnaligned, 3020, &copy);
}

SIM_RT_PT(cudaMemcpy2DAsync, _ptsz,
          (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, cudaMemcpyKind kind,
           cudaStream_t stream),
          (dst, dpitch, src, spitch, width, height, kind, stream)) {
  CUDA_MEMCPY2D copy;
  SIM_RT_TRY(Describe2D(dst, dpitch, src, spitch, width, height, kind, &copy))
  return CU(cuMemcpy2DAsync, 3020, &copy, simrt::StreamOf(stream));
}

SIM_RT_PT(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p), (p)) {
  CUDA_MEMCPY3D copy;
  SIM_RT_TRY(Describe3D(p, &copy))
  return CU_PTDS(cuMemcpy3D, 3020, &copy);
}

SIM_RT_PT(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream), (p, stream)) {
  CUDA_MEMCPY3D copy;
  SIM_RT_TRY(Describe3D(p, &copy))
  return CU(cuMemcpy3DAsync, 3020, &copy, simrt::StreamOf(stream));
}

SIM_RT(cudaMemcpyPeer, (void* dst, int dstDevice, const void* src, int srcDevice, size_t count),
       (dst, dstDevice, src, srcDevice, count)) {
  CUcontext to = nullptr;
  CUcontext from = nullptr;
  SIM_RT_TRY(PeerContexts(dstDevice, srcDevice, &to, &from))
  return CU(cuMemcpyPeer, 4000, Address(dst), to, Address(src), from, count);
}

SIM_RT(cudaMemcpyPeerAsync,
       (void* dst, int dstDevice, const void* src, int srcDevice, size_t count, cudaStream_t stream),
       (dst, dstDevice, src, srcDevice, count, stream)) {
  CUcontext to = nullptr;
  CUcontext from = nullptr;
  SIM_RT_TRY(PeerContexts(dstDevice, srcDevice, &to, &from))
  return CU(cuMemcpyPeerAsync, 4000, Address(dst), to, Address(src), from, count, simrt::StreamOf(stream));
}

SIM_RT_PT(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* p), (p)) {
  CUDA_MEMCPY3D_PEER copy;
  SIM_RT_TRY(DescribePeer(p, &copy))
  return CU_PTDS(cuMemcpy3DPeer, 4000, &copy);
}

SIM_RT_PT(cudaMemcpy3DPeerAsync, _ptsz, (const cudaMemcpy3DPeerParms* p, cudaStream_t stream), (p, stream)) {
  CUDA_MEMCPY3D_PEER copy;
  SIM_RT_TRY(DescribePeer(p, &copy))
  return CU(cuMemcpy3DPeerAsync, 4000, &copy, simrt::StreamOf(stream));
}

// ---- symbols
SIM_RT_PT(cudaMemcpyToSymbol, _ptds,
          (const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind),
          (symbol, src, count, offset, kind)) {
  char* address = nullptr;
  SIM_RT_TRY(simrt::SymbolRange(symbol, offset, count, &address))
  return Copy(address, src, count, kind);
}
SIM_RT_PT(cudaMemcpyFromSymbol, _ptds,
          (void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind),
          (dst, symbol, count, offset, kind)) {
  char* address = nullptr;
  SIM_RT_TRY(simrt::SymbolRange(symbol, offset, count, &address))
  return Copy(dst, address, count, kind);
}
SIM_RT_PT(cudaMemcpyToSymbolAsync, _ptsz,
          (const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
          (symbol, src, count, offset, kind, stream)) {
  char* address = nullptr;
  SIM_RT_TRY(simrt::SymbolRange(symbol, offset, count, &address))
  return CopyAsync(address, src, count, kind, stream);
}
SIM_RT_PT(cudaMemcpyFromSymbolAsync, _ptsz,
          (void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
          (dst, symbol, count, offset, kind, stream)) {
  char* address = nullptr;
  SIM_RT_TRY(simrt::SymbolRange(symbol, offset, count, &address))
  return CopyAsync(dst, address, count, kind, stream);
}
SIM_RT(cudaGetSymbolAddress, (void** devPtr, const void* symbol), (devPtr, symbol)) {
  char* address = nullptr;
  SIM_RT_TRY(simrt::SymbolRange(symbol, 0, 0, &address))
  *devPtr = address;
  return cudaSuccess;
}
SIM_RT(cudaGetSymbolSize, (size_t * size, const void* symbol), (size, symbol)) {
  return simrt::SymbolSize(symbol, size);
}

// ---- batches
namespace {

cudaError_t Batch(void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count,
                  cudaMemcpyAttributes* attrs, size_t* attr_indices, size_t attr_count, cudaStream_t stream) {
  return CU(cuMemcpyBatchAsync, 13000, reinterpret_cast<CUdeviceptr*>(const_cast<void**>(dsts)),
            reinterpret_cast<CUdeviceptr*>(const_cast<void**>(srcs)), const_cast<size_t*>(sizes), count,
            reinterpret_cast<CUmemcpyAttributes*>(attrs), attr_indices, attr_count, simrt::StreamOf(stream));
}

cudaError_t Batch3D(size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags, cudaStream_t stream) {
  return CU(cuMemcpy3DBatchAsync, 13000, count, reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(operations), flags,
            simrt::StreamOf(stream));
}

}  // namespace

#if SIM_CUDART == 12
SIM_RT_AS_PT(cudaMemcpyBatchAsync, _ptsz,
             (void** dsts, void** srcs, size_t* sizes, size_t count, cudaMemcpyAttributes* attrs, size_t* attrsIdxs,
              size_t numAttrs, size_t* failIdx, cudaStream_t stream),
             (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, stream)) {
  const cudaError_t result = Batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream);
  if (result != cudaSuccess && failIdx != nullptr) {
    *failIdx = SIZE_MAX;  // not about one copy
  }
  return result;
}
SIM_RT_AS_PT(cudaMemcpy3DBatchAsync, _ptsz,
             (size_t numOps, cudaMemcpy3DBatchOp* opList, size_t* failIdx, unsigned long long flags,
              cudaStream_t stream),
             (numOps, opList, failIdx, flags, stream)) {
  const cudaError_t result = Batch3D(numOps, opList, flags, stream);
  if (result != cudaSuccess && failIdx != nullptr) {
    *failIdx = SIZE_MAX;
  }
  return result;
}
#else
SIM_RT_PT(cudaMemcpyBatchAsync, _ptsz,
          (void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count, cudaMemcpyAttributes* attrs,
           size_t* attrsIdxs, size_t numAttrs, cudaStream_t stream),
          (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream)) {
  return Batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream);
}
SIM_RT_PT(cudaMemcpy3DBatchAsync, _ptsz,
          (size_t numOps, cudaMemcpy3DBatchOp* opList, unsigned long long flags, cudaStream_t stream),
          (numOps, opList, flags, stream)) {
  return Batch3D(numOps, opList, flags, stream);
}

// Of CUDA 13.2: batches of one.
SIM_RT_AS_PT(cudaMemcpyWithAttributesAsync, _ptsz,
             (void* dst, const void* src, size_t size, cudaMemcpyAttributes* attr, cudaStream_t stream),
             (dst, src, size, attr, stream)) {
  if (attr == nullptr) return cudaErrorInvalidValue;
  size_t first = 0;
  return Batch(&dst, &src, &size, 1, attr, &first, 1, stream);
}
SIM_RT_AS_PT(cudaMemcpy3DWithAttributesAsync, _ptsz,
             (cudaMemcpy3DBatchOp * op, unsigned long long flags, cudaStream_t stream), (op, flags, stream)) {
  return Batch3D(1, op, flags, stream);
}
#endif

// ---- memsets
SIM_RT_PT(cudaMemset, _ptds, (void* devPtr, int value, size_t count), (devPtr, value, count)) {
  return CU_PTDS(cuMemsetD8, 3020, Address(devPtr), static_cast<unsigned char>(value), count);
}
SIM_RT_PT(cudaMemsetAsync, _ptsz, (void* devPtr, int value, size_t count, cudaStream_t stream),
          (devPtr, value, count, stream)) {
  return CU(cuMemsetD8Async, 3020, Address(devPtr), static_cast<unsigned char>(value), count, simrt::StreamOf(stream));
}
SIM_RT_PT(cudaMemset2D, _ptds, (void* devPtr, size_t pitch, int value, size_t width, size_t height),
          (devPtr, pitch, value, width, height)) {
  return CU_PTDS(cuMemsetD2D8, 3020, Address(devPtr), pitch, static_cast<unsigned char>(value), width, height);
}
SIM_RT_PT(cudaMemset2DAsync, _ptsz,
          (void* devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
          (devPtr, pitch, value, width, height, stream)) {
  return CU(cuMemsetD2D8Async, 3020, Address(devPtr), pitch, static_cast<unsigned char>(value), width, height,
            simrt::StreamOf(stream));
}

namespace {

// A 3D memset is one 2D memset per slice.
template <typename SetSlice>
cudaError_t Set3D(const cudaPitchedPtr& target, const cudaExtent& extent, SetSlice set_slice) {
  for (size_t z = 0; z < extent.depth; ++z) {
    SIM_RT_TRY(set_slice(Address(target.ptr) + z * target.pitch * target.ysize))
  }
  return cudaSuccess;
}

}  // namespace

SIM_RT_PT(cudaMemset3D, _ptds, (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent),
          (pitchedDevPtr, value, extent)) {
  return Set3D(pitchedDevPtr, extent, [&](CUdeviceptr slice) {
    return CU_PTDS(cuMemsetD2D8, 3020, slice, pitchedDevPtr.pitch, static_cast<unsigned char>(value), extent.width,
                   extent.height);
  });
}
SIM_RT_PT(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent, cudaStream_t stream),
          (pitchedDevPtr, value, extent, stream)) {
  return Set3D(pitchedDevPtr, extent, [&](CUdeviceptr slice) {
    return CU(cuMemsetD2D8Async, 3020, slice, pitchedDevPtr.pitch, static_cast<unsigned char>(value), extent.width,
              extent.height, simrt::StreamOf(stream));
  });
}
