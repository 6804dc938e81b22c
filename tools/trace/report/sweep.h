// One pass over the time of a process: what its step thread, its other threads and its devices were doing at every
// moment, added up by step, by call site and by device.
//
// Calls, kernels and copies are given in the order of their starts; none is kept when it has ended.
// Threading: an object belongs to one thread.
// Ownership: the steps must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tools/trace/report/idle_lines.h"
#include "tools/trace/report/lane.h"
#include "tools/trace/report/running_kernels.h"
#include "tools/trace/report/steps.h"

namespace slipstream::report {

// Of the measured time; `kernels`, `copies_alone` and `idle` add up to it.
struct DeviceTimes {
  int64_t kernels = 0;       // at least one ran
  int64_t copies_alone = 0;  // no kernel, and at least one copy or set
  std::array<int64_t, kHostStates> idle{};
  int64_t copies = 0;               // at least one copy or set, beside kernels or not
  int64_t communication = 0;        // at least one kernel that communicates
  int64_t communication_alone = 0;  // and no other kernel
  double busy_sms = 0;              // ns, each times the share of the SMs that have a block: min(1, blocks / SMs)

  // With communication_alone, copies_alone and idle these add up to the measured time.
  int64_t computing_only() const { return kernels - communication; }
  int64_t communication_overlapped() const { return communication - communication_alone; }
};

class Sweep {
 public:
  // Steps in the order of their starts, chosen (ChooseSteps).
  explicit Sweep(std::vector<Step>* steps);

  // Whether it began in the measured time. `site`: any small number of the caller's; SiteTime has its time.
  bool Call(bool of_step_thread, int64_t start, int64_t end, CallKind kind, size_t site);
  struct KernelRun {
    int64_t start = 0;
    int64_t end = 0;
    int64_t blocks = 0;
    bool communicates = false;
  };
  // `device`: small numbers of the caller's. `sms` 0: not known.
  bool Kernel(size_t device, const KernelRun& kernel, int64_t sms);
  // A set, too.
  bool Copy(size_t device, int64_t start, int64_t end);
  // Nothing more comes.
  void Finish();

  // The measured time.
  const std::vector<Interval>& measured() const { return measured_; }
  int64_t measured_ns() const;
  // Calls that began in no step, measured or not.
  uint64_t calls_outside_steps() const { return calls_outside_steps_; }
  // Time of the step thread in calls of a site, within the measured time.
  int64_t SiteTime(size_t site) const { return site < site_times_.size() ? site_times_[site] : 0; }
  // Of the time in which no thread was in a call (Part::kOutside), what lies before a call of a site of the step thread
  // and behind its last one. After Finish().
  int64_t GapTime(size_t site) const { return site < gap_times_.size() ? gap_times_[site] : 0; }
  const DeviceTimes& device(size_t device);
  // Its idle time by the sites of calls, of all threads.
  const IdleLines& idle_lines(size_t device) { return At(device).idle_lines; }

 private:
  struct Tag {
    CallKind kind;
    size_t site;
  };
  struct Device {
    RunningKernels kernels;
    RunningKernels communicating;
    RunningKernels computing;
    Lane<char> copies;
    int64_t sms = 0;
    DeviceTimes times;
    IdleLines idle_lines;
  };

  Device& At(size_t device);
  // True where `now_` is in the measured time then.
  bool To(int64_t time);
  // Opens the steps that begin before that moment; closes those that have ended by then.
  void Enter(int64_t to);
  void Leave(int64_t now);
  void Visit(int64_t from, int64_t to);
  // `call`: that the host was in; null: none.
  void VisitDevices(const Tag* call, int64_t from, int64_t measured);

  std::vector<Step>& steps_;
  const std::vector<Interval> measured_;
  std::vector<int64_t> site_times_;
  std::vector<int64_t> gap_times_;
  int64_t gap_ = 0;  // Part::kOutside since the last call of the step thread
  std::deque<Device> devices_;
  std::array<int64_t, kHostStates> host_{};  // measured time by what the host did: of a device that has done nothing
  IdleLines host_lines_;                     // the same by sites
  Lane<Tag> step_thread_;
  Lane<Tag> other_threads_;
  uint64_t calls_outside_steps_ = 0;
  bool begun_ = false;
  int64_t now_ = 0;
  size_t next_step_ = 0;            // that is to be opened
  std::vector<size_t> open_steps_;  // few: steps lie behind each other, but for what a process records itself
  size_t first_window_ = 0;         // of measured_: those before it have ended
};

}  // namespace slipstream::report
