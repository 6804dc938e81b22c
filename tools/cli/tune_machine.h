// Where `slipstream tune` measures, as the journal of a search names it, and the memory of the devices there.
//
// Threading: pure functions that read files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tune/journal.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {

struct DevicesSeen {
  std::vector<std::string> names{};  // a device each, of all processes, as the driver names them
  uint64_t smallest_memory = 0;      // bytes of the one with the least; 0: not known
};
// Those that the processes of a recorded run could use, by the facts of its traces. None: nothing was recorded, or no
// process has called CUDA.
DevicesSeen DevicesOf(const std::string& run_directory);

// "2 x NVIDIA H200"; empty: none are known.
std::string DevicesText(const std::vector<std::string>& names);

// The most that slipstream's pool of one device held, in use or idle, in bytes; 0: not known.
uint64_t PoolPeakOf(const std::vector<tracer::ProcessCounts>& processes);

// `module`: the driver's folder in /sys/module, for tests.
tune::Place PlaceHere(const std::vector<std::string>& devices, const std::string& version,
                      const std::string& module = "/sys/module/nvidia");

}  // namespace slipstream::cli
