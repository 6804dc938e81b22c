// The allocators under test. One is a type with two functions and what CUDA promises of it; a line in `Allocators`, at
// the end, gives it every test and a place in the fuzzer.
//
// What stands underneath (the driver, the library passing through, its pool) is decided by how the program is started.
// Threading: stateless.
// Ownership: memory is the caller's.
// Errors: the CUDA call's.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace conformance {

// cudaMalloc, cudaFree. Memory may be used by any stream at once. A free may come while work on the memory is pending:
// the driver waits for it, and PyTorch, for one, counts on nobody getting the memory before that.
struct CudaMalloc {
  static constexpr const char* kName = "CudaMalloc";
  static constexpr bool kStreamOrdered = false;
  static constexpr size_t kAlignment = 512;  // of blocks of at least as many bytes; any block: kLeastAlignment
  static cudaError_t Allocate(void** memory, size_t bytes, cudaStream_t) { return cudaMalloc(memory, bytes); }
  static cudaError_t Free(void* memory, cudaStream_t) { return cudaFree(memory); }
};

// cudaMallocAsync, cudaFreeAsync, of the device's current pool. Memory is its stream's, and other streams' that are
// ordered behind the allocation and in front of the free.
struct CudaMallocAsync {
  static constexpr const char* kName = "CudaMallocAsync";
  static constexpr bool kStreamOrdered = true;
  static constexpr size_t kAlignment = 256;
  static cudaError_t Allocate(void** memory, size_t bytes, cudaStream_t stream) {
    return cudaMallocAsync(memory, bytes, stream);
  }
  static cudaError_t Free(void* memory, cudaStream_t stream) { return cudaFreeAsync(memory, stream); }
};

// cudaMallocPitch: cudaMalloc's memory by another name, so its promises.
struct CudaMallocPitch {
  static constexpr const char* kName = "CudaMallocPitch";
  static constexpr bool kStreamOrdered = false;
  static constexpr size_t kAlignment = 512;
  static cudaError_t Allocate(void** memory, size_t bytes, cudaStream_t) {
    constexpr size_t kWidest = size_t{1} << 20;  // devices have a limit
    const size_t rows = bytes / kWidest + (bytes % kWidest != 0 ? 1 : 0);
    size_t pitch = 0;
    return cudaMallocPitch(memory, &pitch, rows > 1 ? kWidest : bytes, rows);
  }
  static cudaError_t Free(void* memory, cudaStream_t) { return cudaFree(memory); }
};

inline constexpr size_t kLeastAlignment = 256;  // "suitably aligned for any kind of variable"; CUDA C++ guide: 256

using Allocators = ::testing::Types<  //
    CudaMalloc,                       //
    CudaMallocPitch,                  //
    CudaMallocAsync>;

struct AllocatorNames {
  template <typename Allocator>
  static std::string GetName(int) {
    return Allocator::kName;
  }
};

}  // namespace conformance
