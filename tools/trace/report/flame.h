// Flame graphs of a process: host time in its CUDA calls, and time of its devices, each by the stack of the call.
//
// A stack is the whole one where the trace has it (Python's, and behind it the native frames that are further in than
// Python's interpreter); where no call has one, two frames, a file and a line in it, else one. Of a call on a thread
// without Python that runs a backward pass, the line that called backward() comes first. The leaves are CUDA functions,
// or what the devices did.
//
// Memory: a sum for each different stack and leaf, and the frames of those stacks; never the calls.
// Threading: one thread.
// Errors: as the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/database_reader.h"

namespace slipstream::report {

struct ProcessReport;

enum class FlameKind : uint8_t { kRoot, kFile, kLine, kNative, kLeaf, kUnknown, kSmaller };

struct FlameFrame {
  size_t parent = 0;  // index of FlameGraph::frames; of the root its own
  FlameKind kind = FlameKind::kRoot;
  std::string label;   // "step (train.py:42)"
  std::string detail;  // the file with its folders; empty: there is nothing to add
  int64_t time = 0;    // ns, with all frames below it, which add up to it
  uint64_t count = 0;  // calls, or pieces of work of the devices
};

struct FlameGraph {
  // Parents before what they called; frames of one parent by their labels. The first one is the root: its time is the
  // sum of all.
  std::vector<FlameFrame> frames;
  size_t depth = 0;         // levels
  int64_t least = 0;        // frames of less time than this are put together, those of one parent in one
  bool has_stacks = false;  // else each call has only its line
};

// Of the measured time. Their totals are those of the report: of the host the time of all its sites; of the devices
// that of all kernels, copies and sets that began in it.
struct FlameGraphs {
  std::optional<FlameGraph> host;     // nothing: no time
  std::optional<FlameGraph> devices;  // the same; also where devices were not recorded
};

// Frames of less than one part in so many of the whole are put together, and more of them where more than kMostFrames
// would be left: a browser takes a second or two to draw so many.
inline constexpr int64_t kFlameShare = 1000;
inline constexpr size_t kMostFrames = 2500;

// `process` is finished. `is_only`: there is no other one, and device work is its own whoever it says it is of.
FlameGraphs MakeFlames(trace_db::DatabaseReader* reader, const ProcessReport& process, bool is_only);

}  // namespace slipstream::report
