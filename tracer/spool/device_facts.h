// What the driver says about a device of the process, and how a spool file has it: as a fact (process_facts.h) whose
// key is "device." with the number that the process counts the device by, and whose value is words and then the name:
//
//   uuid=7d0b... bus=0000:18:00.0 total_memory=150754820096 multiprocessors=132 ... name=NVIDIA H200
//
// Unknown values are left out, and readers skip words that they do not know. Numbers are decimal.
//
// Threading: plain data and pure functions.
// Errors: a word that cannot be read is left out. Out of memory throws; the caller catches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slipstream::tracer {

inline constexpr std::string_view kFactDevice = "device.";

// Row: the word, and the driver's attribute (CUdevice_attribute); sizes are bytes, clocks kHz. Limits are the most that
// there can be.
#define SLIPSTREAM_DEVICE_ATTRIBUTES(ROW)                                                  \
  ROW(multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)                           \
  ROW(compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)                         \
  ROW(compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                         \
  ROW(warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE)                                            \
  ROW(threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)                        \
  ROW(threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)      \
  ROW(blocks_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)        \
  ROW(registers_per_block, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)                    \
  ROW(registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)  \
  ROW(shared_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)                   \
  ROW(shared_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)       \
  ROW(shared_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) \
  ROW(constant_memory, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY)                          \
  ROW(l2_cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)                                         \
  ROW(clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)                                           \
  ROW(memory_clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)                             \
  ROW(memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)                        \
  ROW(async_engines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)                               \
  ROW(integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED)                                          \
  ROW(block_x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)                                        \
  ROW(block_y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)                                        \
  ROW(block_z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)                                        \
  ROW(grid_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)                                          \
  ROW(grid_y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)                                          \
  ROW(grid_z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)

struct DeviceFacts {
  std::string name;
  std::string uuid;                     // 00000000-0000-0000-0000-000000000000; empty: not known
  std::string bus;                      // domain:bus:device.function, as the driver writes it; empty: not known
  std::optional<int64_t> total_memory;  // bytes
#define SLIPSTREAM_MEMBER(word, attribute) std::optional<int64_t> word;
  SLIPSTREAM_DEVICE_ATTRIBUTES(SLIPSTREAM_MEMBER)
#undef SLIPSTREAM_MEMBER

  bool operator==(const DeviceFacts&) const = default;
};

std::string UuidText(const std::array<unsigned char, 16>& bytes);

std::string DeviceFactText(const DeviceFacts& device);
DeviceFacts DeviceOfFactText(std::string_view text);
// The number of the device that a fact is about; nullopt: it is about none.
std::optional<int64_t> DeviceOfFactKey(std::string_view key);

}  // namespace slipstream::tracer
