// The kernels of the programs, for the simulated device: registered once, launched seen or unseen.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/differential/program.h"

namespace differential {

void RegisterKernels();

// `src` is not used by kFill. Returns what the launch returned; an unseen one has no status of the runtime's.
cudaError_t LaunchKernel(int flavor, bool unseen, void* dst, const void* src, size_t bytes, uint64_t value,
                         cudaStream_t stream);
// The host function of a kernel, by which it is launched.
const void* KernelOf(int flavor);
// A launch without threads; a launch of a kernel that is not registered.
cudaError_t LaunchBadly(bool unknown, cudaStream_t stream);

}  // namespace differential
