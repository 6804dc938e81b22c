// Makes the calls of an allocation trace again, turn by turn, and takes their times.
//
// Threading: Replay() is for one thread; with ReplayOptions::threads it starts a host thread for each recorded one and
// ends them before it returns. Within a thread the calls keep their order, and a block is freed behind its allocation,
// whoever does either.
// Ownership: all memory, streams and events that it made are gone when it returns.
// Errors: the first one ends the replay and is in the result.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/dev/bench/allocation_trace.h"
#include "tools/dev/bench/replay_check.h"

namespace bench {

// An allocator. `device` is an ordinal, and is current. No call throws.
struct ReplayCalls {
  const char* name;
  cudaError_t (*allocate)(int device, void** memory, size_t bytes, cudaStream_t stream);
  cudaError_t (*free)(int device, void* memory, size_t bytes, cudaStream_t stream);
  // Once, before the first turn: false when the allocator cannot be had on the device.
  bool (*prepare)(int device);
  // The most bytes that it has had from the driver since then, where it can say so.
  std::optional<uint64_t> (*reserved)(int device);
};

struct ReplayOptions {
  bool touch = false;    // some bytes of every block are set behind its allocation, in its stream
  bool check = false;    // replay_check.h
  bool threads = false;  // else one host thread makes all calls, in the order of the file
  uint32_t warm_up = 1;  // turns that are not timed
  uint32_t turns = 3;
  std::optional<int> device{};  // where the trace's one device is played; else its own ordinals hold
};

struct ReplayFailure {
  bool out_of_memory = false;
  std::string what{};  // what could not be done, for people
};

struct ReplayedDevice {
  int ordinal = 0;
  uint64_t peak_live = 0;  // bytes; with threads as they came to be, else the trace's
  std::optional<uint64_t> reserved{};
  // Of all processes: before the first turn, and when the line of the trace's peak had been played, in a turn of its
  // own; and what was live of the replay at that moment.
  std::optional<uint64_t> driver_used_before{};
  std::optional<uint64_t> driver_used_at_peak{};
  uint64_t live_at_peak = 0;
};

struct ReplayResult {
  std::optional<ReplayFailure> failure{};
  std::vector<double> turn_seconds{};  // from the first line on until the devices are done with the last
  std::vector<double> allocate_ns{};   // of every timed call
  std::vector<double> free_ns{};
  std::vector<ReplayedDevice> devices{};
  CheckResult check{};
};

ReplayResult Replay(const AllocationTrace& trace, const ReplayCalls& calls, const ReplayOptions& options);

}  // namespace bench
