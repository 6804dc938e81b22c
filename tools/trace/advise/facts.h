// The facts that the rules of advice look at: a process of a report, and its calls, kernels and copies of the measured
// time, summed by line, function and decision.
//
// Threading, errors: as the reader.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/advise/anomalies.h"
#include "tools/trace/advise/convolutions.h"
#include "tools/trace/advise/slow_step_facts.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"
#include "tools/trace/run/names.h"

namespace slipstream::advise {

class Replay;

using Place = run::Line;

// From here on the host is not on its way to the next call any more, but does something of its own.
inline constexpr int64_t kPause = 2'000'000;

// Calls that have all of these in common.
struct CallGroup {
  std::string function;  // as programs write it
  Place place;
  std::string decision;  // what slipstream decided; empty: nothing
  bool of_step_thread = true;
  bool of_backward = false;  // of a thread of Facts::backward_threads
  bool recomputes = false;   // a line of the forward pass, by a thread of the backward pass
  uint64_t calls = 0;
  int64_t bytes = 0;
  int64_t time = 0;   // on the host
  int64_t least = 0;  // bytes of one
  int64_t most = 0;
  uint64_t pauses = 0;           // times of kPause or more, right before one of them, in which no thread is in a call
  int64_t pause_time = 0;        // of these
  int64_t recording = 0;         // ns that a recording of the devices adds to one of them; see recording_cost.h
  std::array<int64_t, 3> ids{};  // of the database: function, site, decision
};

// Kernels, copies (copyKind of ENUM_CUDA_MEMCPY_OPER) and sets (-1) of the devices, by the line that asked for them.
struct WorkGroup {
  int64_t device = 0;
  std::string kernel;  // its name; empty: a copy or a set
  int64_t copy_kind = -1;
  bool pageable = false;    // a copy from or to pageable memory
  bool recomputes = false;  // as CallGroup::recomputes
  Place place;
  uint64_t count = 0;
  int64_t bytes = 0;
  int64_t time = 0;
  int64_t double_time = 0;  // of it: kernels whose whole names have a template or a function of double precision
  uint64_t fills = 0;       // likewise: kernels that set all elements to one value, how many
  int64_t fill_time = 0;    // and their time
  // Of these: the last ones before kernels of an embedding's gradient, which it is made of.
  uint64_t gradient_fills = 0;
  int64_t gradient_fill_time = 0;
  int64_t least = 0;
  int64_t most = 0;
  std::array<int64_t, 2> ids{};  // of the database: name, site
};

// Uploads of the same bytes at one line, by their fingerprints (`contents` of SLIPSTREAM_DECISION_EVENTS): in nine of
// ten measured steps or more of those in which the line's uploads have any.
struct SameUpload {
  Place place;
  uint64_t steps = 0;        // in which there was one
  uint64_t known_steps = 0;  // in which the line's uploads have fingerprints
  double share = 0;          // of the bytes that these carry
};

// What was at work while the measured steps ran (SLIPSTREAM_TASKS).
struct TaskSum {
  int64_t most = 0;  // at once, of the looks that were taken meanwhile
  int64_t time = 0;  // over which the times are summed; 0: none are known
  int64_t ran = 0;   // these two as in the table, ns
  int64_t waited = 0;
  // Of workers: that were new at one of these looks. Of those that ended meanwhile no times are known.
  int64_t began = 0;
  // How many wanted a processor, and how many had to wait for one, on average.
  double wanted() const { return time > 0 ? static_cast<double>(ran + waited) / static_cast<double>(time) : 0; }
  // Of a thread: the share of its time in which it slept, or waited for anything but a processor.
  double slept() const { return time > 0 ? std::max(0.0, 1 - wanted()) : 0; }
  double waiting() const { return time > 0 ? static_cast<double>(waited) / static_cast<double>(time) : 0; }
};

// Each one: nothing where the trace does not say.
struct TasksOfProcess {
  std::optional<TaskSum> threads;
  std::optional<TaskSum> workers;
  std::optional<TaskSum> step_thread;
  std::optional<int64_t> throttled;  // times that a limit of processors let nothing run
  int64_t throttled_time = 0;        // ns
};

// "8 processors", or under a limit "2.50 processors".
std::string ProcessorsText(double processors);

struct Facts {
  const report::Report* report = nullptr;
  const report::ProcessReport* process = nullptr;
  std::vector<CallGroup> calls;
  std::vector<WorkGroup> work;
  // Threads of PyTorch's autograd that work while the thread that makes the steps waits for them in backward(): it
  // makes no call from the start of one of theirs to its end, in nine of ten of them. Ascending.
  std::vector<int64_t> backward_threads;
  bool devices_recorded = false;         // kernels of the measured time are in the trace
  std::optional<int64_t> device_memory;  // bytes of the largest device; nothing: not known
  std::vector<int64_t> step_times;       // of the measured steps
  // Of each of them, report::Step::idle: ranks wait for each other in kernels that communicate. Empty: not known.
  std::vector<int64_t> step_idle;
  std::vector<SlowStepFacts> slow_steps;
  Convolutions convolutions;
  Anomalies anomalies;
  std::optional<int64_t> processors;      // that the process may use
  std::optional<int64_t> shared_memory;   // bytes of /dev/shm
  std::optional<double> processor_limit;  // of its control group; nothing: none, or not known
  std::vector<SameUpload> same_uploads;
  uint64_t fingerprinted = 0;  // copies of the measured steps of which it is known what they carried
  // Of the devices, major * 10 + minor; nothing: not known, or they differ.
  std::optional<int64_t> compute_capability;
  std::shared_ptr<const Replay> replay;  // of the measured steps; null: not known what the devices did (replay.h)
  int64_t recording = 0;                 // ns of a step that a recording of the devices adds, and the replay leaves out
  TasksOfProcess tasks;
  // Of all processes of the trace that make steps on this machine, this one among them, each over its own steps.
  std::vector<TasksOfProcess> machine;

  // What there is for all that is at work: the lower of the two; nothing: not known.
  std::optional<double> ProcessorsToUse() const;

  // A count of the measured time, of one step.
  double CountPerStep(uint64_t count) const { return static_cast<double>(count) / process->divisor(); }
  // The share of one step of a sum over the measured time.
  int64_t PerStep(int64_t sum) const {
    return process->has_steps && process->measured_steps > 1 ? sum / static_cast<int64_t>(process->measured_steps)
                                                             : sum;
  }
  // Where the host ran ahead, the measured time has the work of another number of steps than the calls in it: a sum of
  // what a device did in that time, as of the measured steps. WorkGroup is so.
  int64_t OfMeasuredSteps(int64_t sum) const;
  // Time in which no device was at work, of one step; nothing: not known.
  std::optional<int64_t> IdlePerStep() const;
};

bool IsBackwardThread(const Facts& facts, int64_t thread);

// The report must have been made of the same database, and outlive the facts.
Facts ReadFacts(trace_db::DatabaseReader* reader, const report::Report& report, size_t process);

}  // namespace slipstream::advise
