// The devices of a trace, as far as its database describes them (TARGET_INFO_GPU, and SLIPSTREAM_DEVICES or
// TARGET_INFO_CUDA_DEVICE), and what follows from that about a kernel.
//
// Threading: none of its own.
// Errors: kept by the DatabaseReader; what is not there is not known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tools/trace/db/database_reader.h"

namespace slipstream::trace_db {

// nullopt: not known.
struct Device {
  std::string name;
  std::optional<int64_t> total_memory;  // bytes
  std::optional<int64_t> major;         // compute capability
  std::optional<int64_t> minor;
  std::optional<int64_t> multiprocessors;
  std::optional<int64_t> warp_size;
  std::optional<int64_t> threads_per_block;  // from here on: at most so many
  std::optional<int64_t> warps_per_multiprocessor;
  std::optional<int64_t> blocks_per_multiprocessor;
  std::optional<int64_t> registers_per_block;
  std::optional<int64_t> registers_per_multiprocessor;
  std::optional<int64_t> shared_per_block;  // bytes
  std::optional<int64_t> shared_per_block_optin;
  std::optional<int64_t> shared_per_multiprocessor;
};

struct KernelShape {
  int64_t grid[3] = {0, 0, 0};   // blocks
  int64_t block[3] = {0, 0, 0};  // threads
  int64_t registers = 0;         // of a thread
  int64_t shared = 0;            // bytes of a block, static and dynamic
};

// As the PyTorch profiler has them: what the grid puts onto each multiprocessor, whether or not it fits at once, ...
struct KernelLoad {
  double blocks = 0;
  double warps = 0;
  // ... and of the threads that fit, how many that keeps there: min(blocks, blocks that fit) x a block's threads /
  // threads that fit. nullopt: the device is not known well enough, or the kernel could not run on it.
  std::optional<double> occupancy;
};
// nullopt: nothing is known about the device, or the kernel's numbers are no kernel's.
std::optional<KernelLoad> LoadOf(const KernelShape& kernel, const Device& device);

class Devices {
 public:
  Devices() = default;
  explicit Devices(DatabaseReader& database);

  // nullptr: it is not described. `process` as SLIPSTREAM_PROCESSES has it (0: that table is not there), `pid` as the
  // database has it (none: nobody knows), `device` as the process counts.
  const Device* Find(int64_t process, std::optional<int64_t> pid, int64_t device) const;

 private:
  std::map<int64_t, Device> by_id_;  // of TARGET_INFO_GPU
  using Numbers = std::map<std::pair<int64_t, int64_t>, int64_t>;
  Numbers of_own_;                        // (processId, the process's number) to id: no two processes share one
  Numbers of_process_;                    // (pid, the process's number) to id
  std::map<int64_t, int64_t> of_system_;  // CUDA's number to id
};

}  // namespace slipstream::trace_db
