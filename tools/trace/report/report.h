// A recorded run in figures, from its database alone (docs/report.md has the meaning and the formula of each). Start
// reading here.
//
//   report.cpp            asks the database, in one pass over its calls, kernels and copies
//   sweep.h, lane.h, running_kernels.h   where the time of a process went, moment by moment
//   wall_sweep.h           what was before the steps, between them and behind them
//   slow_steps.h          what a step that took far longer was longer in
//   held_memory.h         who had the memory of devices
//   fragmentation.h       what idle memory of a pool was good for
//   idle_lines.h, kernel_lines.h   what of a device's time belongs to which line
//   program_ranges.h      the program's own NVTX ranges
//   verdict.h             what to act on, from the report itself
//   avoided_waits.h       what the host would have waited for, from stream_work.h and host_ahead.h
//   gains.h               host time that was gained, measured and estimated
//   steps.h, call_kind.h, distribution.h, kernel_name.h   rules, as pure functions
//   timeline.h            one step in detail
//   flame.h               time of the host in CUDA and of the devices by stack
//   text.h, *_text.h, json.h, *_json.h, html.h   what is made of a Report; they compute nothing that is shown as a
//   figure of the run
//
// Memory: one Step each, and a little for every line, function, kernel name, thread and device; never the calls.
// Threading: one thread.
// Times are ns of the trace's clock, sizes bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/device_lines.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/flame.h"
#include "tools/trace/report/gains.h"
#include "tools/trace/report/host_ahead.h"
#include "tools/trace/report/memory_report.h"
#include "tools/trace/report/place.h"
#include "tools/trace/report/program_ranges.h"
#include "tools/trace/report/steps.h"
#include "tools/trace/report/sweep.h"
#include "tools/trace/report/wall_sweep.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::report {

// A line of the program that calls are put down to, within the measured time.
struct SiteReport {
  bool of_step_thread = true;  // else of all other threads
  bool known = false;          // else no line is
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  uint64_t calls = 0;
  uint64_t waiting = 0;  // of them, those whose function waits for the device and that slipstream did not make return
  int64_t time = 0;      // of the step thread: these add up to its parts. Of others: the calls' own, summed up
  int64_t gap = 0;       // of Part::kOutside, what lies right before calls of the step thread here
  int64_t bytes = 0;
  struct Function {
    std::string name;
    uint64_t calls = 0;
  };
  std::vector<Function> functions;  // the most frequent first
};

struct KernelReport {
  std::string name;
  uint64_t launches = 0;
  int64_t time = 0;           // their durations, summed up
  bool tensor_cores = false;  // by its name
};

// What stands for a set where copies have their copyKind, of ENUM_CUDA_MEMCPY_OPER.
inline constexpr int64_t kSetKind = -1;
// What was copied or set on a device in the measured time, by copyKind (kSetKind: a set).
struct DeviceCopyReport {
  int64_t kind = -1;
  std::string name;
  uint64_t count = 0;
  int64_t bytes = 0;
  int64_t time = 0;
  // Of them, those that slipstream asked for: in the place of the program's own, or beside them.
  uint64_t own_count = 0;
  int64_t own_bytes = 0;
  int64_t own_time = 0;
};

struct DeviceReport {
  int64_t device = 0;
  std::string name;  // empty: not known
  std::optional<int64_t> sms;
  uint64_t kernels = 0;          // that began in the measured time
  int64_t kernel_time = 0;       // their durations, summed up
  int64_t tensor_core_time = 0;  // of that, by the kernels' names
  DeviceTimes times;
  std::optional<double> sm_efficiency;  // of the measured time, idle or not
  std::optional<double> achieved_occupancy;
  // The share of its multiprocessors that kernels use while any runs. `measured`: the process's measured time.
  std::optional<double> sms_while_busy(int64_t measured) const {
    if (!sm_efficiency || times.kernels <= 0) return std::nullopt;
    return *sm_efficiency * static_cast<double>(measured) / static_cast<double>(times.kernels);
  }
  std::vector<KernelReport> top;  // by time
  uint64_t kernel_names = 0;
  std::vector<DeviceCopyReport> copies;
  std::vector<IdleLineReport> idle_lines;      // by time
  std::vector<KernelLineReport> kernel_lines;  // by time; empty: nothing says which call launched what
};

struct DecisionReport {
  std::string name;
  std::string meaning;          // empty: of another slipstream
  uint64_t calls = 0;           // how often, in the whole run
  uint64_t measured_calls = 0;  // in the measured time
  int64_t bytes = 0;
  int64_t measured_bytes = 0;
  int64_t saved = 0;  // what is above zero, summed up
  int64_t lost = 0;   // what is below, as a number above zero
};

// What the host did not wait for (host_ahead.h), by the devices' records.
struct AheadReport {
  uint64_t skipped = 0;         // waits that slipstream skipped, in calls that began in the measured time
  uint64_t behind_work = 0;     // of them, those whose work was still running when they returned
  uint64_t stream_unknown = 0;  // of them, those of which nobody knows: they count as if nothing had been running
  std::array<uint64_t, kSkippedBy> skipped_by{};  // the first figure, by what would have waited
  // The most by which the measured steps together can be shorter through the waits that were skipped, without what such
  // a wait takes by itself (docs/report.md has the proof). Nothing: `why_no_bound` says why it is not known.
  std::optional<int64_t> at_most;
  const char* why_no_bound = nullptr;
  AheadTimes step_thread;
  AheadTimes other_threads;
};

// Calls that the pool answered by itself, and those of the same function that reached the driver, in the whole run.
struct PoolCalls {
  uint64_t served = 0;
  int64_t served_time = 0;
  int64_t served_median = 0;
  uint64_t real = 0;
  int64_t real_time = 0;
  int64_t real_median = 0;
};

struct MemoryPoint {
  int64_t time = 0;
  int64_t live = 0;
  int64_t idle = 0;
};
struct MemoryReport {
  int64_t device = 0;
  int64_t peak_live = 0;
  int64_t peak_idle = 0;
  int64_t peak = 0;                            // of both together
  MemoryPoint peak_point;                      // where that was first
  std::optional<int64_t> peak_largest_idle;    // block, by the same reading; nothing: it does not say
  std::optional<Fragmentation> fragmentation;  // nothing: not known, as with pools of several devices
  int64_t last_live = 0;
  int64_t last_idle = 0;
  int64_t trims = 0;
  int64_t retries = 0;
  uint64_t readings = 0;
  std::vector<MemoryPoint> points;  // the highest of every part of the run
};

// Blocks of device memory.
struct HeldSum {
  int64_t bytes = 0;
  uint64_t blocks = 0;
};
// Who asked for some of them.
struct HolderReport {
  bool known = false;  // the line is
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  std::string library;  // path of the file whose code made the call; empty: not known
  HeldSum sum;          // at the peak
};
inline constexpr size_t kHoldersDrawn = 7;
struct HeldPoint {
  int64_t time = 0;
  int64_t bytes = 0;
  std::vector<int64_t> of;  // the first kHoldersDrawn holders
};
// What the program had of a device's memory by its own calls, in the whole run (held_memory.h).
struct HeldReport {
  int64_t device = -1;  // -1: not known
  int64_t peak = 0;
  int64_t peak_time = 0;
  uint64_t peak_blocks = 0;
  int64_t last = 0;
  uint64_t last_blocks = 0;
  uint64_t allocations = 0;
  std::optional<MemoryPoint> pool;  // what its pool held then, as it was read last
  std::optional<DeviceUse> use;     // nothing: the driver was not asked before
  MemoryColumns columns;
  // All at the peak, the most bytes first.
  std::vector<HolderReport> holders;
  std::vector<std::pair<std::string, HeldSum>> libraries;  // by path; empty: not known
  std::vector<std::pair<std::string, HeldSum>> functions;
  std::map<int64_t, HeldSum> streams;
  std::map<int, HeldSum> sizes;   // [i]: of at least 2^i bytes
  std::vector<HeldPoint> points;  // the highest of every part of the run, if asked for
};

// Host time in copy calls of the measured time by size: kCopySizes[i] holds those of at least 2^i bytes.
struct CopySize {
  uint64_t calls = 0;
  int64_t bytes = 0;
  int64_t time = 0;
};
// From the device's own records, where there are any.
using CopySizes = std::map<int, CopySize>;  // by the exponent

// Work on devices that libraries asked for past every hook, and waited for, in the whole run.
struct LibraryReport {
  std::string path;  // empty: not known
  uint64_t kernels = 0;
  uint64_t copies = 0;             // and sets
  int64_t time = 0;                // on the devices, summed up
  uint64_t synchronizations = 0;   // by the host
  int64_t synchronizing_time = 0;  // of the host
};

// A part of the whole time of a process (wall_sweep.h).
struct WallPartReport {
  WallPart part = WallPart::kOther;
  int64_t time = 0;
  uint64_t count = 0;         // steps, pauses, phases
  std::optional<Place> most;  // the line with most of it; nothing: none has
};
struct WallReport {
  int64_t begin = 0;
  int64_t end = 0;
  bool from_process_start = false;    // `begin` is, known to 10 ms; else it is the first record
  std::vector<WallPartReport> parts;  // those that there are, in the order of WallPart; they add up to end - begin
};

// A measured step that took far longer than the others (IsSlow).
struct SlowStep {
  int64_t number = 0;
  int64_t start = 0;
  int64_t time = 0;
  // The part that is longest beyond its median, and by how much; nothing: none is.
  std::optional<Part> part;
  int64_t grew = 0;
  std::optional<Place> place;  // the line that grew most in that part, against the median step, by place->time
};

struct ErrorReport {
  std::string function;
  int64_t code = 0;
  uint64_t calls = 0;
};

struct ProcessReport {
  int64_t process = 0;  // of the database
  std::optional<int64_t> pid;
  std::optional<int64_t> rank;
  std::optional<int64_t> local_rank;
  std::optional<int64_t> world_size;
  std::string host;
  std::string executable;
  std::string command;
  std::string spool;
  int64_t first = 0;
  int64_t last = 0;
  uint64_t calls = 0;

  // Steps. None were found: one measured interval stands for the whole of the process.
  bool has_steps = false;
  // Why not, as far as it is known: behind "no steps were found". Empty where there are steps.
  std::string why_no_steps;
  // Behind "Python lines: ", why there are none; empty: they are read, or an older trace does not say.
  std::string no_lines;
  // Why nothing of its devices was recorded; empty: it was, or an older trace does not say.
  std::string no_devices;
  // Which interface was intercepted, "runtime" or "driver"; empty: an older trace does not say.
  std::string intercept;
  bool sees_driver() const { return intercept == "driver"; }
  // No step was recorded on its devices from its beginning to its end: all are measured, and nothing is said of
  // devices.
  bool unwatched_everywhere = false;
  bool drops_everywhere = false;  // no step is without a drop: all are measured, and calls are missing in them
  std::string step_site;          // "file:line (function)"; empty: as the process recorded them
  // They were found by their launches, copies and sets: how many of them a step has in the median.
  std::optional<int64_t> step_launches;
  bool steps_found = false;  // by a line or by launches, so that a step ends where the next one begins
  int64_t step_thread = 0;
  std::string step_thread_name;
  std::vector<Step> steps;  // all, in order
  size_t measured_steps = 0;
  size_t warm_up_steps = 0;
  size_t dropped_steps = 0;
  size_t unwatched_steps = 0;
  size_t unfinished_steps = 0;
  size_t ahead_steps = 0;
  size_t paused_steps = 0;  // not in `steps`: the recording was paused in a part of them
  size_t pauses = 0;        // of the recording, as the policy or somebody wanted it
  int64_t paused_time = 0;
  bool devices_recorded = false;  // by slipstream
  int64_t measured_time = 0;      // covered by measured steps
  Distribution step_time;         // of the measured ones
  Distribution work_time;         // Step::work_time of the measured ones; of 0 where it is not known
  // The host ran ahead of the devices in all that is measured: work_time is what a step takes.
  bool ran_ahead = false;
  // Where nothing is known of its devices, by the host's wait after the measured steps, in ns, and about (backlog.h).
  std::optional<int64_t> waited_after;
  const Distribution& pace_of_work() const { return ran_ahead ? work_time : step_time; }
  // What it takes: of the measured ones, pace_of_work() is made of that.
  int64_t TimeOf(const Step& step) const { return ran_ahead ? step.work_time : step.time(); }
  // Of those before devices were recorded for the first time. Those behind a recording stay longer: on an
  // H100, steps that took 26.7 ms with calls recorded alone took 36.8 with devices, and 34.5 after that.
  Distribution step_time_before_devices;
  // Their median; nothing: there are too few for one.
  std::optional<int64_t> median_before_devices() const {
    constexpr size_t kLeast = 10;
    return step_time_before_devices.count < kLeast ? std::nullopt : std::optional(step_time_before_devices.median);
  }
  std::array<Distribution, kParts> parts;
  Distribution time_outside_waits;  // Step::time_outside_waits of the measured ones
  Distribution communication_time;  // Step::communication
  // From the end of a measured step to the start of the next, and from start to start, where nothing but a pause is
  // between them (wall_sweep.h). Of steps that were found, whose ends are the starts of the next, the first is empty.
  Distribution pause_time;
  Distribution pace;
  std::vector<SlowStep> slow_steps;  // the longest first, at most kSlowStepsListed
  size_t slow_step_count = 0;
  WallReport wall;

  std::vector<SiteReport> sites;  // by time
  std::vector<DeviceReport> devices;
  RangesReport ranges;
  CopySizes copy_sizes;                        // of copy calls, on the host
  std::map<int64_t, CopySizes> device_copies;  // by copyKind
  std::vector<DecisionReport> decisions;       // the most frequent first
  GainsReport gains;
  std::optional<AheadReport> ahead;  // nothing: its devices were not recorded in the measured time
  PoolCalls allocations;             // cudaMalloc
  PoolCalls frees;                   // cudaFree
  std::vector<MemoryReport> memory;
  std::vector<HeldReport> held;  // by device
  // Memory that was given back and not seen allocated; allocated and not seen given back before; resets of one of
  // several devices.
  uint64_t unknown_frees = 0;
  uint64_t unseen_frees = 0;
  uint64_t unknown_resets = 0;
  std::vector<ErrorReport> errors;       // the most frequent first
  std::vector<LibraryReport> libraries;  // by time
  uint64_t all_kernels = 0;              // of the whole run, whoever asked for them
  uint64_t unattributed = 0;             // kernels, copies and sets whose call is not in the trace

  // What was not seen, or not placed.
  uint64_t dropped = 0;
  uint64_t dropped_of_step_thread = 0;  // of them, those whose thread is known
  uint64_t dropped_of_others = 0;
  uint64_t drop_gaps = 0;
  bool complete = true;
  std::string end_reason;
  std::optional<int64_t> later_calls;  // made after the recording had ended by itself; nothing: not known
  std::string left_why;
  int64_t left_bytes = 0;
  int64_t damaged_bytes = 0;   // in the midst of its file
  int64_t missing_chunks = 0;  // of the file
  int64_t missing_records = 0;
  int64_t malformed_chunks = 0;
  uint64_t given_up_records = 0;     // for newer ones, because the policy wants it: they are not missing
  std::optional<int64_t> kept_from;  // where the rest begins
  int64_t skipped_records = 0;
  std::vector<std::pair<const tracer::RefusedFact*, uint64_t>> refused;  // what found no room in the trace
  uint64_t calls_without_line = 0;                                       // that began in the measured time
  uint64_t measured_calls = 0;                                           // likewise, of all threads
  uint64_t calls_outside_steps = 0;

  // Of the device where it is most, in ns of the measured time.
  int64_t communication() const;
  int64_t communication_alone() const;
  // What per-step figures divide by: 1 for a process without steps.
  double divisor() const { return has_steps ? static_cast<double>(measured_steps) : 1.0; }
  // The same for what devices did in the measured time, which is another number of steps where the host ran ahead.
  double device_divisor() const { return ran_ahead && !waited_after ? divisor_of_work() : divisor(); }
  // That makes the measured time work_time, where that is known.
  double divisor_of_work() const {
    return has_steps && work_time.total > 0 ? static_cast<double>(measured_time) / work_time.mean() : divisor();
  }
};

// A call or a piece of device work, or several that are too short to be seen: these begin with the first one and last
// for the time that they cover, and have the kind and the name of those that cover most of it.
struct TimelineItem {
  int64_t start = 0;
  int64_t end = 0;
  int kind = 0;  // CallKind; on a device: kTimelineKernel, kTimelineCopy
  std::string name;
  uint64_t count = 1;  // how many it stands for
};
inline constexpr int kTimelineKernel = 100;
inline constexpr int kTimelineCopy = 101;
struct TimelineLane {
  std::string name;
  std::vector<TimelineItem> items;
};
// The measured step of median time.
struct Timeline {
  size_t process = 0;  // of Report::processes
  int64_t number = 0;
  int64_t start = 0;
  int64_t end = 0;
  std::vector<TimelineLane> lanes;
  uint64_t merged = 0;       // calls and pieces of device work that have no item of their own
  uint64_t merged_into = 0;  // how many items they are
  uint64_t left_out = 0;     // because there are too many threads and streams
};

// Of the processes that have steps, by the median of their steps; indices of Report::processes.
struct Spread {
  size_t shortest = 0;
  size_t longest = 0;
  int64_t difference = 0;  // of their medians
};

// Between ranks: a collective's kernel runs until the last rank is there. So the others wait for the rank with the
// least time in such kernels, however alike their steps are.
struct Communication {
  size_t waited_for = 0;  // index of Report::processes
  size_t waits_most = 0;
  int64_t wait = 0;  // of that one more than of the other, in ns of a step
};

// The rank that holds the others up, and one that it differs from beyond the spread of their steps (Differ) and by more
// than 2 % of a step; indices of Report::processes.
struct Slowest {
  // How that shows, the surest first.
  enum class By : uint8_t {
    kCommunication,  // least time in kernels that communicate
    kStepTime,       // the longest steps: they do not wait for each other in every one
    kOutsideWaits,   // steps are alike, devices were not recorded: the longest time outside copies and synchronizations
  };
  size_t process = 0;
  size_t than = 0;
  By by = By::kStepTime;
  int64_t difference = 0;  // in ns of a step, above 0
};

struct Report {
  std::string product;  // who wrote the database
  bool has_own_tables = false;
  int64_t start_unix_ns = 0;  // 0: not known
  int64_t first = 0;
  int64_t last = 0;
  uint64_t calls = 0;
  bool kernels_recorded = false;
  bool device_copies_recorded = false;
  std::vector<std::string> hosts;
  std::vector<ProcessReport> processes;  // by rank, then as in the database
  // Why files of the run are not in the database at all, as whoever made it knows.
  std::vector<std::string> unreadable;
  // The slowest one, if that shows; else the one with the longest steps; else the one with most calls.
  size_t shown = 0;
  std::optional<Spread> spread;                // nothing: fewer than two have steps
  std::optional<Slowest> slowest;              // nothing: no rank differs from the others so much
  std::optional<Communication> communication;  // nothing: fewer than two with steps communicate
  std::optional<Timeline> timeline;
  FlameGraphs flames;  // of the process that is shown, if asked for
};

struct ReportOptions {
  bool timeline = false;     // asks once more about one step, memory over time, and time by stack
  bool all_kernels = false;  // DeviceReport::top has every name, else no more than a screen or a page shows
  std::function<void(uint64_t calls, uint64_t all_calls)> progress = {};
};

// Check reader->ok() afterwards: if it is false, nothing of the report may be used.
Report MakeReport(trace_db::DatabaseReader* reader, const ReportOptions& options);

// Of the step that a moment lies in; nothing: it lies in none.
std::optional<int64_t> StepNumberAt(const ProcessReport& process, int64_t time);

// The place in the report of the process of a rank, or of the one that is shown; nothing: there is none.
std::optional<size_t> ProcessOf(const Report& report, std::optional<int64_t> rank);

// "python3 (pid 7, rank 0)"
std::string NameOf(const ProcessReport& process);

}  // namespace slipstream::report
