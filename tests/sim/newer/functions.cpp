// What the simulated libcudart.so.13 of a later release has besides: functions that nobody has heard of (S66).
#include "tests/sim/runtime/entry.h"

// Enqueues a copy, to host memory too.
SIM_RT(cudaMemcpyTeleportAsync, (void* dst, const void* src, size_t count, cudaStream_t stream),
       (dst, src, count, stream)) {
  return CU(cuMemcpyAsync, 4000, reinterpret_cast<CUdeviceptr>(dst), reinterpret_cast<CUdeviceptr>(src), count,
            simrt::StreamOf(stream));
}

SIM_RT_BARE(cudaTeleportGetVersion, (int* version), (version)) {
  *version = 1;
  return cudaSuccess;
}
