// Classifies a kernel by its name.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace slipstream::report {

// Whether it computes on tensor cores, as far as its name says so: an estimate. The names are those that NVIDIA's
// libraries and CUTLASS give such kernels (the shape of the matrix instruction, "hmma", "wgmma", "tensorop", "xmma",
// "nvjet") and those of fused attention, less those that name ordinary multiplications ("ffma", "simt"). A program's
// own kernel that uses tensor cores without saying so is missed.
bool NamesTensorCores(std::string_view name);

// Whether it moves data between devices or ranks, and may wait for the others to do so: NCCL's kernels, NVSHMEM's, and
// PyTorch's own over multicast memory.
bool NamesCommunication(std::string_view name);

}  // namespace slipstream::report
