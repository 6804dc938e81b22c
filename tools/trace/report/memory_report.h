// What a report has of memory beside its blocks: what else a device had in use, fragmentation, and memory over time.
// Sizes are bytes, times ns of the trace's clock.
//
// Threading: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace slipstream::report {

// What a device had in use when the driver was last asked up to the peak. used = blocks + idle + rest.
struct DeviceUse {
  int64_t time = 0;    // of that reading of the pool
  int64_t used = 0;    // by anybody
  int64_t blocks = 0;  // that the program's calls had got by then
  int64_t idle = 0;    // of the pool, by the same reading
  // Contexts, modules, what no hook sees, other processes, and what blocks take beyond what was asked for. Below zero:
  // blocks are counted that are not there any more.
  int64_t rest = 0;
};

// An allocation for which the driver had no memory left.
struct Shortage {
  int64_t time = 0;
  std::string decision;
  int64_t bytes = 0;                    // that were asked for; 0: not known
  std::optional<int64_t> idle;          // in the pool before any of it was given back; nothing: no reading before
  std::optional<int64_t> largest_idle;  // by the last reading; nothing: it does not say
};

// How well the idle memory of a pool served what was asked for, in the whole run.
struct Fragmentation {
  uint64_t grown = 0;  // allocations that the driver served
  int64_t grown_bytes = 0;
  uint64_t not_fitting = 0;  // of them, those that asked for no more than was idle
  int64_t not_fitting_bytes = 0;
  uint64_t tried_again = 0;         // after idle memory was given back
  uint64_t refused = 0;             // left to the program's own call
  std::vector<Shortage> shortages;  // the first kShortagesListed of these two
};
inline constexpr size_t kShortagesListed = 20;

// The run in parts of one length; empty: there was no time.
struct MemoryColumns {
  struct Row {
    std::vector<int64_t> highest;  // in each part
  };
  int64_t first = 0;
  int64_t length = 0;
  Row all;
  std::vector<Row> of;  // the first kHoldersInColumns holders
  size_t peak = 0;      // the part that it is in
};
inline constexpr size_t kMemoryColumns = 60;
inline constexpr size_t kHoldersInColumns = 3;

}  // namespace slipstream::report
