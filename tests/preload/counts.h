// What slipstream counted and what the simulator counted, side by side.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/process.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::test {

using CallCounts = std::map<std::string, uint64_t>;

// Of a counter-file directory: calls by function, all processes together; functions that were not called are left out.
CallCounts CountsIn(const std::string& run_directory);

// Of one process.
CallCounts CountsOf(const tracer::ProcessCounts& process);

// What the simulator wrote to the file named by SIMCUDA_COUNTS: calls of the hooked functions of
// `library` ("libcudart.so.13"), by function.
CallCounts SimulatorCounts(const std::string& path, const std::string& library);

// Variables for a bare preload that counts into `run_directory`, as `slipstream run` sets them; the pool of device
// memory is off.
Variables CountingPreload(const std::string& library, const std::string& run_directory);

}  // namespace slipstream::test
