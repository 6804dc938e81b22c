// Asks NVML how much of a device's memory the driver has given to all processes. This bypasses whatever is between the
// program and CUDA, so memory that a pool keeps counts as used.
//
// Threading: one thread at a time for each object.
// Ownership: NVML stays loaded.
// Errors: no answer where there is no NVML, or no device of that name in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bench {

class DriverMemory {
 public:
  // `bus_id` as cudaDeviceGetPCIBusId writes it.
  explicit DriverMemory(const std::string& bus_id);

  std::optional<uint64_t> UsedBytes() const;

 private:
  void* device_ = nullptr;
};

}  // namespace bench
