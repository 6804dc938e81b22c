// The reading side of counter files (counter_layout.h): what `slipstream run` and `slipstream doctor` show.
//
// A reader trusts nothing: a file may be torn, truncated, or from another build. Such a file yields an error, never a
// crash.
// Threading: pure functions over the file; the writer may still be running, then the numbers are a moment's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/base/memory_figures.h"
#include "tracer/base/record_control.h"
#include "tracer/counters/counter_layout.h"

namespace slipstream::tracer {

struct FunctionCounts {
  std::string name;
  std::string group;
  bool bound = false;  // the process's runtime has this function
  uint64_t calls = 0;
  uint64_t errors = 0;
  uint64_t bytes = 0;
  uint64_t time_ns = 0;
};

struct CopyCounts {
  std::string kind;
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

// What an engine decided, under the writer's own name for it ("transfer.h2d.promoted.small").
struct DecisionCounts {
  std::string name;
  uint64_t count = 0;
  uint64_t bytes = 0;    // of what was decided about, where that has a size
  uint64_t time_ns = 0;  // that carrying it out took, where that is measured
};

// What the pool of a device held at one time.
struct MemoryCounts {
  uint64_t number = 0;   // 1: the process's first; those before the oldest one here are lost
  uint64_t time_ns = 0;  // since the process's first CUDA call
  MemoryFigures figures;
};

struct Fact {
  std::string key;
  std::string value;
};

// Sums over all threads of one process.
struct ProcessCounts {
  int32_t pid = 0;
  int32_t parent_pid = 0;
  int32_t rank = -1;
  int32_t local_rank = -1;
  uint64_t start_unix_ns = 0;
  std::string executable;
  RecordState record_state = RecordState::kNone;
  std::vector<Fact> facts;
  std::vector<FunctionCounts> functions;  // every hook, called or not, in the table's order
  std::vector<CopyCounts> copies;
  std::vector<DecisionCounts> decisions;  // every decision the process could take, taken or not, in the writer's order

  std::vector<MemoryCounts> memory;  // in the order of time

  // The newest sample of each device, in the order of devices.
  std::vector<MemoryCounts> LastMemory() const;
  // All values of `key`, in order.
  std::vector<std::string> FactsOf(const std::string& key) const;
};

// Reads one file. Returns false and fills *error when it is not a whole counter file.
bool ReadCounterFile(const std::string& path, ProcessCounts* counts, std::string* error);

// The same of a file that the caller holds open, from its beginning: it may have been removed in the meantime. `name`:
// for errors.
bool ReadCounterFile(int fd, const std::string& name, ProcessCounts* counts, std::string* error);

// Reads every counter file of a run's directory, in order of start. Files that cannot be read become
// lines of *problems.
std::vector<ProcessCounts> ReadRunDirectory(const std::string& directory, std::vector<std::string>* problems);

}  // namespace slipstream::tracer
