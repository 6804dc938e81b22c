// What a call moves, as the rows of hooks.def say it: each returns a tracer::CallDetail from the call's own arguments.
//
// Threading: pure functions.
// Hazard: pointers here are the program's. A row's detail is evaluated after the call succeeded, or, for an
//   attached NVTX tool, before it: so NULL must be survived. Other bad pointers fault here as they would a moment
//   later in the runtime.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tracer/base/call_detail.h"

namespace slipstream::shim {

inline tracer::CallDetail NoDetail() { return {}; }

inline tracer::CallDetail Bytes(uint64_t bytes) { return {.bytes = bytes, .copy_kind = -1}; }

inline tracer::CallDetail Bytes(const cudaExtent& extent) { return Bytes(extent.width * extent.height * extent.depth); }

inline tracer::CallDetail Copy(uint64_t bytes, int kind) { return {.bytes = bytes, .copy_kind = kind}; }

// Device memory that a call got and gave back. An address that nothing was written to is no memory.
inline uint64_t AddressAt(void* const* memory) { return memory != nullptr ? reinterpret_cast<uintptr_t>(*memory) : 0; }
inline uint64_t AddressAt(const CUdeviceptr* memory) { return memory != nullptr ? *memory : 0; }

template <typename Address>
tracer::CallDetail Allocated(Address* memory, uint64_t bytes) {
  return {.bytes = bytes, .use = tracer::MemoryUse::kAllocated, .address = AddressAt(memory)};
}
inline tracer::CallDetail Allocated(const cudaPitchedPtr* memory, const cudaExtent& extent) {
  return Allocated(memory != nullptr ? &memory->ptr : nullptr, Bytes(extent).bytes);
}
template <typename Address>
tracer::CallDetail AllocatedManaged(Address* memory, uint64_t bytes) {
  tracer::CallDetail detail = Allocated(memory, bytes);
  detail.kind = tracer::MemoryKind::kManaged;
  return detail;
}
inline tracer::CallDetail Freed(const void* memory) {
  return {.use = tracer::MemoryUse::kFreed, .address = reinterpret_cast<uintptr_t>(memory)};
}
inline tracer::CallDetail Freed(CUdeviceptr memory) { return {.use = tracer::MemoryUse::kFreed, .address = memory}; }

// Physical memory has a handle. Of the host's nothing is said but how much it was.
inline tracer::CallDetail Created(const CUmemGenericAllocationHandle* handle, uint64_t bytes,
                                  const CUmemAllocationProp* properties) {
  if (handle == nullptr || properties == nullptr || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return Bytes(bytes);
  }
  return {.bytes = bytes,
          .use = tracer::MemoryUse::kAllocated,
          .kind = tracer::MemoryKind::kPhysical,
          .device = properties->location.id,
          .address = *handle};
}
inline tracer::CallDetail Released(CUmemGenericAllocationHandle handle) {
  return {.use = tracer::MemoryUse::kFreed, .kind = tracer::MemoryKind::kPhysical, .address = handle};
}

inline tracer::CallDetail AllFreed() { return {.use = tracer::MemoryUse::kReset}; }

// Of a batch: the sum. `sizes` may be NULL when `count` is 0.
inline tracer::CallDetail BatchBytes(const size_t* sizes, size_t count) {
  uint64_t total = 0;
  if (sizes != nullptr) {
    for (size_t i = 0; i < count; ++i) total += sizes[i];
  }
  return Bytes(total);
}

// A batch names a direction for no copy; the driver finds it from the pointers.
inline tracer::CallDetail CopyBatch(uintptr_t sizes, uintptr_t count) {
  const uint64_t bytes = BatchBytes(reinterpret_cast<const size_t*>(sizes), count).bytes;
  return Copy(bytes, cudaMemcpyDefault);
}

// The extent of a copy that involves an array counts elements, whose size is not in the call: bytes unknown, written as
// 0.
inline tracer::CallDetail Copy3D(const cudaMemcpy3DParms* parms) {
  if (parms == nullptr) return {};
  const bool linear = parms->srcArray == nullptr && parms->dstArray == nullptr;
  return Copy(linear ? Bytes(parms->extent).bytes : 0, parms->kind);
}

inline tracer::CallDetail Copy3D(const cudaMemcpy3DPeerParms* parms) {
  if (parms == nullptr) return {};
  const bool linear = parms->srcArray == nullptr && parms->dstArray == nullptr;
  return Copy(linear ? Bytes(parms->extent).bytes : 0, cudaMemcpyDeviceToDevice);
}

// CUDA_MEMCPY2D, CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: all sizes are in bytes. An array is memory of the device.
template <typename Box>
tracer::CallDetail CopyBox(const Box* box) {
  if (box == nullptr) return {};
  uint64_t bytes = uint64_t{box->WidthInBytes} * box->Height;
  if constexpr (requires { box->Depth; }) bytes *= box->Depth;
  if (box->srcMemoryType == CU_MEMORYTYPE_UNIFIED || box->dstMemoryType == CU_MEMORYTYPE_UNIFIED) {
    return Copy(bytes, cudaMemcpyDefault);
  }
  const bool from_host = box->srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = box->dstMemoryType == CU_MEMORYTYPE_HOST;
  return Copy(bytes, from_host ? (to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                               : (to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice));
}

}  // namespace slipstream::shim
