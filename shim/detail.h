// What a call moves, as the rows of hooks.def say it: each returns a tracer::CallDetail from the call's own arguments.
//
// Threading: pure functions.
// Hazard: pointers here are the program's. A row's detail is evaluated after the call succeeded, or, for an
//   attached NVTX tool, before it: so NULL must be survived. Other bad pointers fault here as they would a moment
//   later in the runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tracer/tracer.h"

namespace slipstream::shim {

inline tracer::CallDetail NoDetail() { return {}; }

inline tracer::CallDetail Bytes(uint64_t bytes) { return {.bytes = bytes, .copy_kind = -1}; }

inline tracer::CallDetail Bytes(const cudaExtent& extent) { return Bytes(extent.width * extent.height * extent.depth); }

inline tracer::CallDetail Copy(uint64_t bytes, int kind) { return {.bytes = bytes, .copy_kind = kind}; }

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

}  // namespace slipstream::shim
