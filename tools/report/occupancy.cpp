#include "tools/report/occupancy.h"

#include <cuda_occupancy.h>

#include <algorithm>
#include <climits>

namespace slipstream::report {
namespace {

// What its parameters may be.
constexpr int64_t kMost = INT_MAX;
bool Fits(int64_t value) { return value >= 0 && value <= kMost; }

}  // namespace

std::optional<double> AchievedOccupancy(const DeviceLimits& limits, const KernelShape& kernel) {
  const int64_t threads_per_sm = limits.warps_per_sm * limits.threads_per_warp;
  if (limits.sms <= 0 || threads_per_sm <= 0 || kernel.threads <= 0 || kernel.blocks <= 0) return std::nullopt;
  for (const int64_t value : {threads_per_sm, limits.compute_major, limits.compute_minor, limits.threads_per_block,
                              limits.registers_per_block, limits.registers_per_sm, kernel.threads, kernel.registers,
                              kernel.static_shared, kernel.dynamic_shared}) {
    if (!Fits(value)) return std::nullopt;
  }
  cudaOccDeviceProp device;
  device.computeMajor = static_cast<int>(limits.compute_major);
  device.computeMinor = static_cast<int>(limits.compute_minor);
  device.maxThreadsPerBlock = static_cast<int>(limits.threads_per_block);
  device.maxThreadsPerMultiprocessor = static_cast<int>(threads_per_sm);
  device.regsPerBlock = static_cast<int>(limits.registers_per_block);
  device.regsPerMultiprocessor = static_cast<int>(limits.registers_per_sm);
  device.warpSize = static_cast<int>(limits.threads_per_warp);
  device.sharedMemPerBlock = static_cast<size_t>(limits.shared_per_block);
  device.sharedMemPerMultiprocessor = static_cast<size_t>(limits.shared_per_sm);
  device.numSms = static_cast<int>(std::min(limits.sms, kMost));
  device.sharedMemPerBlockOptin = static_cast<size_t>(limits.shared_per_block_optin);
  // From compute capability 8.0 on the driver keeps 1 KiB of every block (CUDA C++ Programming Guide, "Shared Memory").
  device.reservedSharedMemPerBlock = limits.compute_major >= 8 ? 1024 : 0;
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = INT_MAX;
  function.numRegs = static_cast<int>(kernel.registers);
  function.sharedSizeBytes = static_cast<size_t>(kernel.static_shared);
  function.partitionedGCConfig = PARTITIONED_GC_OFF;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = static_cast<size_t>(
      std::max<int64_t>({kernel.dynamic_shared, limits.shared_per_block_optin - kernel.static_shared, 0}));
  const cudaOccDeviceState state;
  cudaOccResult result;
  const cudaOccError error =
      cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, static_cast<int>(kernel.threads),
                                              static_cast<size_t>(kernel.dynamic_shared));
  if (error != CUDA_OCC_SUCCESS || result.activeBlocksPerMultiprocessor <= 0) return std::nullopt;
  const double blocks_per_sm = std::min(static_cast<double>(kernel.blocks) / static_cast<double>(limits.sms),
                                        static_cast<double>(result.activeBlocksPerMultiprocessor));
  return blocks_per_sm * static_cast<double>(kernel.threads) / static_cast<double>(threads_per_sm);
}

}  // namespace slipstream::report
