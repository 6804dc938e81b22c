// Work for a device, the same on a GPU and on the simulated one (tests/sim), chosen when the program runs.
//
// Three kernels: on a GPU PTX text that the driver compiles, on the simulator host functions. Both are launched by
// cudaLaunchKernel, as a compiled program's are.
// Threading: any thread.
// Ownership: nothing is handed over.
// Errors: the CUDA call's.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace conformance {

bool Simulated();

// Byte `index` of the pattern with the salt.
constexpr uint8_t PatternByte(uint32_t salt, size_t index) {
  return static_cast<uint8_t>(((static_cast<uint32_t>(index) ^ salt * 0x85EBCA6BU) * 0x9E3779B1U) >> 24);
}

// How many of `found` are not the pattern's, and where the first of them is.
struct Wrong {
  size_t bytes = 0;
  size_t first = 0;
};
Wrong WrongBytes(const uint8_t* found, size_t bytes, uint32_t salt);

// Writes the pattern.
cudaError_t LaunchFill(void* memory, size_t bytes, uint32_t salt, cudaStream_t stream);
cudaError_t LaunchMove(void* to, const void* from, size_t bytes, cudaStream_t stream);
// Work that keeps what is behind it on the stream pending for a while: longer than a host takes for the calls of a
// test. On the simulator nothing runs before somebody waits; there it is more than a few queries get through.
cudaError_t LaunchDelay(cudaStream_t stream);

// After cudaDeviceReset: kernels are loaded anew.
void ForgetKernels();

// cuMemAlloc and cuMemFree: device memory that no allocator under test knows of. All that the driver has, but for
// `left`; 0: it has not much more than that.
CUdeviceptr TakeUnseenBut(size_t left);
void GiveUnseen(CUdeviceptr memory);

// cuMemGetAddressRange of the driver itself.
CUresult AddressRange(const void* memory, uintptr_t* base, size_t* bytes);

}  // namespace conformance
