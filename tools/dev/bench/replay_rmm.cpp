#include "tools/dev/bench/replay_rmm.h"

#include <cuda_runtime_api.h>

#include <cuda/stream_ref>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace bench {
namespace {

// What RMM aligns its blocks to.
constexpr size_t kAlignment = 256;

using Pool = rmm::mr::pool_memory_resource;

// Filled before the first turn, and not changed any more. Leaked: RMM calls CUDA when a pool goes.
std::map<int, std::unique_ptr<Pool>>& Pools() {
  static auto* const kPools = new std::map<int, std::unique_ptr<Pool>>;
  return *kPools;
}

template <typename Call>
cudaError_t Guarded(Call call) {
  try {
    call();
    return cudaSuccess;
  } catch (const std::bad_alloc&) {
    // What RMM throws whatever CUDA answered.
    return cudaErrorMemoryAllocation;
  } catch (const std::exception&) {
    return cudaErrorUnknown;
  }
}

// It grows from nothing: how much a program will want is not known to it.
bool Prepare(int device) {
  return Guarded([device] {
           rmm::mr::cuda_memory_resource driver;
           // The CUDA runtime inside RMM may not work here, which would look like memory that has ended.
           const cuda::stream_ref stream{cudaStream_t{}};
           driver.deallocate(stream, driver.allocate(stream, kAlignment, kAlignment), kAlignment, kAlignment);
           Pools().try_emplace(device, std::make_unique<Pool>(driver, 0));
         }) == cudaSuccess;
}

cudaError_t Allocate(int device, void** memory, size_t bytes, cudaStream_t stream) {
  return Guarded([&] { *memory = Pools().at(device)->allocate(cuda::stream_ref{stream}, bytes, kAlignment); });
}

cudaError_t Free(int device, void* memory, size_t bytes, cudaStream_t stream) {
  return Guarded([&] { Pools().at(device)->deallocate(cuda::stream_ref{stream}, memory, bytes, kAlignment); });
}

// It gives nothing back while it lives: what it has now is the most that it had.
std::optional<uint64_t> Reserved(int device) {
  const auto pool = Pools().find(device);
  return pool == Pools().end() ? std::nullopt : std::optional<uint64_t>(pool->second->pool_size());
}

constexpr ReplayCalls kRmm = {
    .name = "rmm", .allocate = Allocate, .free = Free, .prepare = Prepare, .reserved = Reserved};

}  // namespace
}  // namespace bench

extern "C" [[gnu::visibility("default")]] const bench::ReplayCalls* ReplayRmmCalls() { return &bench::kRmm; }
