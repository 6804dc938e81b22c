// The file of a recorded run's device allocations, which replay_allocations makes again. Text, a line a call, in the
// order of time:
//
//   slipstream-allocations 1
//   # a comment; blank lines count for nothing
//   m THREAD DEVICE STREAM ID BYTES     an allocation; ID is a number from 1 that no other allocation has
//   f THREAD DEVICE STREAM ID           its free, in STREAM
//   s THREAD DEVICE STREAM              the host waited for the stream
//   d THREAD DEVICE                     the host waited for the device
//
// One space between two fields. STREAM 0 is a device's default stream; a stream's number says which it is together with
// its device. What is never freed is live at the end.
// Threading: values without locks; any thread may read one that does not change.
// Errors: a text for people, with file, line and column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace bench {

enum class TraceCall : uint8_t { kAllocate, kFree, kStreamWait, kDeviceWait };

// Numbers of threads, devices, streams and blocks are places in the lists of AllocationTrace.
struct TraceLine {
  TraceCall call = TraceCall::kAllocate;
  uint32_t thread = 0;
  uint32_t device = 0;
  uint32_t stream = 0;  // not of kDeviceWait
  uint32_t block = 0;   // of kAllocate and kFree
};

struct TraceBlock {
  uint64_t id = 0;
  uint64_t bytes = 0;
  uint32_t thread = 0;
  uint32_t device = 0;
  uint32_t stream = 0;
  bool freed = false;
  bool freed_elsewhere = false;  // by another thread than its own
};

struct TraceStream {
  uint32_t device = 0;
  uint64_t number = 0;  // the file's; 0 is the default stream
};

struct AllocationTrace {
  std::vector<TraceLine> lines;
  std::vector<TraceBlock> blocks;
  std::vector<uint64_t> threads;  // the file's numbers, in order of first appearance
  std::vector<uint64_t> devices;  // ordinals
  std::vector<TraceStream> streams;
};

// The most bytes of a device that are live at once, and the line (a place in `lines`) after which they first are.
struct LivePeak {
  uint64_t bytes = 0;
  size_t line = 0;
};

// Reads all of it. False: `error` is "NAME:LINE:COLUMN: what is wrong; what to do", and `trace` must not be used.
bool ReadAllocationTrace(std::istream& in, const std::string& name, AllocationTrace* trace, std::string* error);

// For each of trace.devices, in the order of the lines.
std::vector<LivePeak> LivePeaks(const AllocationTrace& trace);

}  // namespace bench
