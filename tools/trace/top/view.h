// What `slipstream top` shows, as figures: what the processes of a run, or of all runs of the machine, did between two
// readings of their counter files, and in the last seconds of their traces. view.h holds them, run_watch.h and
// machine_watch.h fill them in, lines.h and list.h draw them.
//
// What is not known is missing (std::optional), never 0. Times are nanoseconds, sizes bytes.
//
// Threading: plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/report/call_kind.h"
#include "tracer/base/memory_figures.h"
#include "tracer/base/record_control.h"

namespace slipstream::top {

// Of calls that returned in the interval.
struct CallSum {
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t time_ns = 0;  // host time inside them, of all threads
  uint64_t errors = 0;
};

struct FunctionView {
  std::string name{};
  report::CallKind kind = report::CallKind::kOther;
  bool waits = false;  // report::Waits
  CallSum sum{};
};

struct CopyView {
  std::string direction{};  // as the counter file spells it: "host_to_device"
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

struct DecisionView {
  std::string name{};  // "transfer.h2d.promoted.small"
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t time_ns = 0;  // that carrying it out took
};

// Between two readings of a counter file.
struct CounterView {
  double seconds = 0;        // between them, above 0
  uint64_t total_calls = 0;  // since the process's first
  CallSum all{};
  CallSum waiting{};                                // of functions that wait for the device
  std::array<CallSum, report::kCallKinds> kinds{};  // by report::CallKind
  std::vector<FunctionView> functions{};            // that were called, by time
  std::vector<CopyView> copies{};                   // that were made
  std::vector<DecisionView> decisions{};            // that were taken, in the writer's order
};

struct StepsView {
  uint64_t seen = 0;  // since top has looked at the trace
  uint64_t last_ns = 0;
  uint64_t median_ns = 0;  // of the last ones, at most kStepsShown
  uint64_t p95_ns = 0;
  size_t of = 0;  // that many
  double per_second = 0;
  std::vector<uint64_t> trend_ns{};         // medians of parts of them, the oldest first; empty: too few
  std::optional<uint64_t> since_last_ns{};  // that the last one ended; of a process that runs on this host
  std::string how{};                        // "each from train.py:7", "NVTX ranges", "recorded"
};

struct LineView {
  std::string file{};  // empty: no line is known
  std::string function{};
  int32_t line = 0;
  uint64_t calls = 0;
  uint64_t time_ns = 0;  // inside its calls
};

struct DeviceView {
  int32_t device = 0;
  double busy = 0;  // share of the time that a kernel ran, 0 to 1
};

// Time for which the program went on while it would have waited without slipstream.
struct AheadView {
  double share = 0;  // of the time that was looked at
  uint64_t skipped = 0;
  uint64_t unknown = 0;  // of them: nobody can tell until when they would have waited
};

// In the last seconds of a trace.
struct TraceView {
  std::optional<double> read{};  // how much of the file so far, 0 to 1: top has not caught up yet
  bool ended = false;
  std::string trouble{};   // why it goes no further
  std::string no_lines{};  // behind "Python lines: ", why there are none; empty: they are read, or it is not known
  uint64_t dropped = 0;
  bool damaged = false;  // parts of the file are, and it goes on behind them
  double seconds = 0;    // that `lines` are of; 0: nothing was recorded in them
  std::optional<StepsView> steps{};
  std::optional<double> steps_in_window{};
  std::vector<LineView> lines{};  // by time
  bool has_device_work = false;
  std::vector<DeviceView> devices{};
  std::optional<AheadView> ahead{};
};

struct ProcessView {
  int32_t pid = 0;
  int32_t rank = -1;  // -1: none
  std::string executable{};
  std::string host{};       // empty: this one, or not known
  std::string directory{};  // of its run
  std::string user{};       // whose it is; empty: not asked for
  std::string command{};    // "train.py --epochs 3"; empty: not asked for
  // Nothing: not known.
  std::optional<tracer::RecordState> recording{};
  uint64_t start_unix_ns = 0;
  bool alive = false;
  std::optional<CounterView> counters{};
  std::string no_counters{};  // why there are none
  std::optional<TraceView> trace{};
  std::vector<tracer::MemoryFigures> memory{};  // the newest of each device
  bool slowest = false;                         // of the ranks of its run: by median step, where that says something
};

struct View {
  uint64_t unix_ns = 0;
  std::vector<std::string> directories{};
  std::vector<ProcessView> processes{};  // by rank, then by start
  std::vector<std::string> problems{};   // files that cannot be read, and why
  std::vector<int32_t> uncounted{};      // processes under slipstream that keep no counters; of a view of the machine
  bool ended = false;                    // nothing more will come
};

}  // namespace slipstream::top
