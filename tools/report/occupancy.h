// How much of a streaming multiprocessor (SM) a kernel can fill: CUDA's own occupancy calculator (cuda_occupancy.h),
// with the limits of a device as a database has them.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace slipstream::report {

struct DeviceLimits {
  int64_t sms = 0;
  int64_t compute_major = 0;
  int64_t compute_minor = 0;
  int64_t threads_per_warp = 0;
  int64_t warps_per_sm = 0;
  int64_t threads_per_block = 0;
  int64_t registers_per_block = 0;
  int64_t registers_per_sm = 0;
  int64_t shared_per_block = 0;
  int64_t shared_per_block_optin = 0;
  int64_t shared_per_sm = 0;
};

struct KernelShape {
  int64_t blocks = 0;
  int64_t threads = 0;    // of a block
  int64_t registers = 0;  // of a thread
  int64_t static_shared = 0;
  int64_t dynamic_shared = 0;
};

// min(blocks / SMs, blocks that fit into an SM) x threads of a block / threads of an SM. Nothing where the limits are
// not known, or the kernel could not run within them.
std::optional<double> AchievedOccupancy(const DeviceLimits& limits, const KernelShape& kernel);

}  // namespace slipstream::report
