// Streams as the engine names them: by explicit handles, so that "the default stream" has one meaning.
//
// Threading: values.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace slipstream::cuda {

// Tells streams apart. A per-thread default stream is its thread's.
struct StreamKey {
  CUstream handle = nullptr;  // null: a stream that is gone, equal to none that a program can name
  uint64_t thread = 0;

  bool operator==(const StreamKey&) const = default;
};

// Never NULL in what comes out: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a created stream.
inline CUstream Explicit(CUstream handle, bool per_thread_default) {
  if (handle != nullptr) return handle;
  return per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

// `handle` is an explicit one; `thread` is any number that is the calling thread's own.
inline StreamKey KeyOf(CUstream handle, uint64_t thread) {
  return {handle, handle == CU_STREAM_PER_THREAD ? thread : 0};
}

}  // namespace slipstream::cuda
