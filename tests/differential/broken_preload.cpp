// A library to be preloaded that breaks a promise of CUDA's on purpose: the differential test must find it. BROKEN says
// which one:
//   drop_sync     the synchronization that follows a copy to pinned memory is dropped, now and then
//   naive_skip    the synchronization that follows a copy from pageable memory is dropped, without any of the rules
//   late_source   a pageable source is read at the thread's next call
//   early_pinned  a pinned source is read at the call
//   early_tail    all of a large pageable source is read at the call
//   wrong_status  an error is forgotten
//   crash, hang   at a certain copy
//   count_copies  as naive_skip, but only from the process's 300th copy on
// The others remember only what the thread did last: a small program must show what a long one showed.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define BROKEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kLarge = size_t{2} << 20;

bool Broken(const char* how) {
  static const char* const wanted = std::getenv("BROKEN");
  return wanted != nullptr && std::strcmp(wanted, how) == 0;
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(function) Real<decltype(function)>(#function)

bool Is(const void* pointer, cudaMemoryType type) {
  cudaPointerAttributes attributes = {};
  return REAL(cudaPointerGetAttributes)(&attributes, pointer) == cudaSuccess && attributes.type == type;
}

struct LastCopy {
  bool dropped_sync = false;  // whether the synchronization behind it is to be dropped
  cudaStream_t stream = nullptr;
};
thread_local LastCopy last_copy;

struct Late {
  bool pending = false;
  void* dst = nullptr;
  const void* src = nullptr;
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local Late late;

// What the thread's last call put off.
void CatchUp() {
  if (!late.pending) return;
  late.pending = false;
  (void)REAL(cudaMemcpyAsync)(late.dst, late.src, late.bytes, cudaMemcpyHostToDevice, late.stream);
}

}  // namespace

BROKEN_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  static auto* const real = REAL(cudaMemcpyAsync);
  CatchUp();
  last_copy = {};
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const bool plain = REAL(cudaStreamIsCapturing)(stream, &capture) == cudaSuccess &&
                     capture == cudaStreamCaptureStatusNone && count != 0;
  const bool down = plain && Is(src, cudaMemoryTypeDevice) && Is(dst, cudaMemoryTypeHost);
  const bool from_pageable = plain && Is(src, cudaMemoryTypeUnregistered) && Is(dst, cudaMemoryTypeDevice);
  const bool from_pinned = plain && Is(src, cudaMemoryTypeHost) && Is(dst, cudaMemoryTypeDevice);
  static std::atomic<int> copies{0};
  const bool late_in_life = Broken("count_copies") && ++copies >= 300;
  if ((down && Broken("drop_sync") && count % 8 == 3) || (from_pageable && (Broken("naive_skip") || late_in_life))) {
    last_copy = {true, stream};
  }
  if (from_pageable && count % 64 == 7) {
    if (Broken("crash")) std::abort();
    while (Broken("hang")) pause();
  }
  if (from_pageable && Broken("late_source")) {
    late = {true, dst, src, count, stream};
    return cudaSuccess;
  }
  if ((from_pinned && Broken("early_pinned")) || (from_pageable && count > kLarge && Broken("early_tail"))) {
    const auto* const bytes = static_cast<const unsigned char*>(src);
    const std::vector<unsigned char> copy(bytes, bytes + count);
    return real(dst, copy.data(), count, cudaMemcpyHostToDevice, stream);
  }
  return real(dst, src, count, kind, stream);
}

BROKEN_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  static auto* const real = REAL(cudaStreamSynchronize);
  CatchUp();
  const bool drop = last_copy.dropped_sync && last_copy.stream == stream;
  last_copy = {};
  return drop ? cudaSuccess : real(stream);
}

BROKEN_EXPORT cudaError_t cudaGetLastError(void) {
  static auto* const real = REAL(cudaGetLastError);
  const cudaError_t error = real();
  return Broken("wrong_status") ? cudaSuccess : error;
}

// The calls that a copy put off must come before.
BROKEN_EXPORT cudaError_t cudaLaunchKernel(const void* func, dim3 grid, dim3 block, void** args, size_t shared,
                                           cudaStream_t stream) {
  static auto* const real = REAL(cudaLaunchKernel);
  CatchUp();
  return real(func, grid, block, args, shared, stream);
}

BROKEN_EXPORT cudaError_t cudaDeviceSynchronize(void) {
  static auto* const real = REAL(cudaDeviceSynchronize);
  CatchUp();
  return real();
}
