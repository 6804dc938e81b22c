// What a kernel's name tells about it.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace slipstream::report {

// That it computes on tensor cores, as far as its name says so: an estimate. The names are those that NVIDIA's
// libraries and CUTLASS give such kernels (the shape of the matrix instruction, "hmma", "wgmma", "tensorop", "xmma",
// "nvjet") and those of fused attention. A kernel of one's own that uses tensor cores and does not say so is missed.
bool NamesTensorCores(std::string_view name);

// That it moves data between devices or ranks, and may wait for the others to do so: NCCL's kernels, NVSHMEM's, and
// PyTorch's own over multicast memory.
bool NamesCommunication(std::string_view name);

}  // namespace slipstream::report
