// What follows about a kernel from its device, compared with NVIDIA's own calculator where its header is.

#include "tools/trace/db/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define SLIPSTREAM_HAS_OCCUPANCY 1
#endif

namespace slipstream::trace_db {
namespace {

struct Known {
  int major, minor, multiprocessors, warps, blocks;
  int64_t shared, shared_optin;
};
// Multiprocessors are one product's; the rest: CUDA C++ Programming Guide, "Compute Capabilities".
constexpr Known kKnown[] = {{7, 0, 80, 64, 32, 98304, 98304},    {7, 5, 68, 32, 16, 65536, 65536},
                            {8, 0, 108, 64, 32, 167936, 166912}, {8, 6, 84, 48, 16, 102400, 101376},
                            {8, 9, 128, 48, 24, 102400, 101376}, {9, 0, 132, 64, 32, 233472, 232448},
                            {10, 0, 148, 64, 32, 233472, 232448}};

Device DeviceOf(const Known& known) {
  Device device;
  device.major = known.major;
  device.minor = known.minor;
  device.multiprocessors = known.multiprocessors;
  device.warp_size = 32;
  device.warps_per_multiprocessor = known.warps;
  device.blocks_per_multiprocessor = known.blocks;
  device.registers_per_multiprocessor = 65536;
  device.shared_per_multiprocessor = known.shared;
  return device;
}

TEST(Devices, AKernelsLoad) {
  const KernelShape kernel = {.grid = {264, 1, 1}, .block = {256, 1, 1}, .registers = 32, .shared = 0};
  const Device device = DeviceOf(kKnown[5]);
  const auto load = LoadOf(kernel, device);
  ASSERT_TRUE(load.has_value());
  EXPECT_EQ(load->blocks, 2);  // of 132 multiprocessors
  EXPECT_EQ(load->warps, 16);
  EXPECT_DOUBLE_EQ(*load->occupancy, 0.25);  // of 64 warps

  Device half_known;
  half_known.multiprocessors = 132;
  const auto half = LoadOf(kernel, half_known);
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->blocks, 2);
  EXPECT_EQ(half->occupancy, std::nullopt);
  EXPECT_EQ(LoadOf(kernel, Device()), std::nullopt);
}

TEST(Devices, OccupancyIsByThreadsRegistersAndSharedMemory) {
  const Device h200 = DeviceOf(kKnown[5]);
  const auto of = [&](const KernelShape& kernel) { return LoadOf(kernel, h200)->occupancy.value_or(-1); };
  constexpr int64_t kMany = 1 << 20;
  // 8 blocks of 256 threads fill a multiprocessor.
  EXPECT_DOUBLE_EQ(of({.grid = {kMany, 1, 1}, .block = {256, 1, 1}, .registers = 32}), 1.0);
  // 255 registers: of 256 each 65536 / (256 * 256) = 1 block.
  EXPECT_DOUBLE_EQ(of({.grid = {kMany, 1, 1}, .block = {16, 16, 1}, .registers = 255}), 0.125);
  // 100 KiB and the driver's 1 KiB: 2 blocks in 228 KiB.
  EXPECT_DOUBLE_EQ(of({.grid = {kMany, 1, 1}, .block = {256, 1, 1}, .registers = 32, .shared = 100 << 10}), 0.25);
  // Fewer blocks than multiprocessors: half of them have one.
  EXPECT_DOUBLE_EQ(of({.grid = {33, 2, 1}, .block = {256, 1, 1}, .registers = 32}), 0.5 * 256 / 2048);
}

TEST(Devices, AKernelThatCannotRunAtAll) {
  Device h200 = DeviceOf(kKnown[5]);
  h200.threads_per_block = 1024;
  const auto of = [&](const KernelShape& kernel) { return LoadOf(kernel, h200)->occupancy; };
  EXPECT_EQ(of({.grid = {1, 1, 1}, .block = {0, 1, 1}}), std::nullopt);
  EXPECT_EQ(of({.grid = {1, 1, 1}, .block = {2048, 2, 1}}), std::nullopt);
  EXPECT_EQ(of({.grid = {1, 1, 1}, .block = {32, 1, 1}, .shared = 1 << 20}), std::nullopt);
}

// Of a database that somebody made up.
TEST(Devices, NoNumberIsTooStrange) {
  const Device h200 = DeviceOf(kKnown[5]);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t strange : {kMost, -kMost - 1, int64_t{-1}}) {
    EXPECT_EQ(LoadOf({.grid = {1, 1, 1}, .block = {strange, 1, 1}}, h200), std::nullopt);
    EXPECT_EQ(LoadOf({.grid = {1, 1, 1}, .block = {1, 1, 1}, .registers = strange}, h200), std::nullopt);
    EXPECT_EQ(LoadOf({.grid = {1, 1, 1}, .block = {1, 1, 1}, .shared = strange}, h200), std::nullopt);
    EXPECT_NE(LoadOf({.grid = {strange, strange, strange}, .block = {1, 1, 1}}, h200), std::nullopt);
  }
}

TEST(Devices, OccupancyIsWhatNvidiasCalculatorSays) {
#ifndef SLIPSTREAM_HAS_OCCUPANCY
  GTEST_SKIP() << "no cuda_occupancy.h beside the CUDA headers";
#else
  std::mt19937_64 random(7);
  int compared = 0;
  for (const Known& known : kKnown) {
    for (int i = 0; i < 3000; ++i) {
      const int threads = 1 + static_cast<int>(random() % 1024);
      const int registers = 1 + static_cast<int>(random() % 255);
      const int64_t shared = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 99'000);
      const int64_t blocks = 1 + static_cast<int64_t>(random() % 3000);
      cudaOccDeviceProp properties = {};
      properties.computeMajor = known.major;
      properties.computeMinor = known.minor;
      properties.maxThreadsPerBlock = 1024;
      properties.maxThreadsPerMultiprocessor = known.warps * 32;
      properties.regsPerBlock = 65536;
      properties.regsPerMultiprocessor = 65536;
      properties.warpSize = 32;
      properties.sharedMemPerBlock = 49152;
      properties.sharedMemPerMultiprocessor = static_cast<size_t>(known.shared);
      properties.numSms = known.multiprocessors;
      properties.sharedMemPerBlockOptin = static_cast<size_t>(known.shared_optin);
      properties.reservedSharedMemPerBlock = known.major >= 8 ? 1024 : 0;
      cudaOccFuncAttributes attributes = {};
      attributes.maxThreadsPerBlock = 1024;
      attributes.numRegs = registers;
      attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
      attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
      attributes.maxDynamicSharedSizeBytes = static_cast<size_t>(known.shared_optin);
      cudaOccDeviceState state = {};
      state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
      cudaOccResult result = {};
      if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state, threads,
                                                  static_cast<size_t>(shared)) != CUDA_OCC_SUCCESS) {
        continue;
      }
      // 0: the kernel cannot be launched there, so that there is no row of it.
      if (result.activeBlocksPerMultiprocessor == 0) continue;
      ++compared;
      const double at_once = std::min(static_cast<double>(blocks) / known.multiprocessors,
                                      static_cast<double>(result.activeBlocksPerMultiprocessor));
      const auto load =
          LoadOf({.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .registers = registers, .shared = shared},
                 DeviceOf(known));
      ASSERT_TRUE(load.has_value());
      EXPECT_DOUBLE_EQ(load->occupancy.value_or(-1), at_once * threads / (known.warps * 32))
          << known.major << "." << known.minor << " threads " << threads << " registers " << registers << " shared "
          << shared << " blocks " << blocks << " at once " << result.activeBlocksPerMultiprocessor;
    }
  }
  EXPECT_GT(compared, 10'000);
#endif
}

}  // namespace
}  // namespace slipstream::trace_db
