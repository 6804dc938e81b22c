// The steps of a process, what the time of each went into, and which of them count.
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::report {

// What the thread that makes the steps was doing: every moment of a step is in one of them. The first ones are
// CallKind's.
enum class Part : uint8_t {
  kCopies,
  kSynchronizes,
  kAllocator,
  kLaunches,
  kOtherCalls,
  kElsewhere,  // outside CUDA calls, while another thread of the process was in one (autograd's, say)
  kOutside,    // no thread of the process was in a CUDA call that was recorded
};
inline constexpr size_t kParts = 7;
using Parts = std::array<int64_t, kParts>;

constexpr Part PartOf(CallKind kind) { return static_cast<Part>(kind); }
// As the JSON spells it.
std::string_view NameOf(Part part);

enum class StepUse : uint8_t {
  kMeasured,
  kWarmUp,      // before the loop had its pace
  kDropped,     // records of a thread of the process are missing in it, so that calls would pass for time outside them
  kUnwatched,   // devices were not recorded in all of it, so that work would pass for idle time
  kUnfinished,  // nobody knows when it ended: behind it the program left its loop
  kAhead,       // the host ran further ahead in it: its time is not that of a step's work (ChooseByBacklog)
};

struct Step {
  int64_t number = 0;
  int64_t start = 0;
  int64_t end = 0;
  StepUse use = StepUse::kMeasured;
  bool before_devices = false;   // of kUnwatched: over before devices were recorded for the first time
  Parts parts{};                 // their sum is end - start
  uint64_t calls = 0;            // that began in it, of its thread
  uint64_t calls_elsewhere = 0;  // of other threads
  int64_t communication = 0;     // ns in which a kernel that communicates ran on any device
  int64_t idle = 0;              // ns in which no device computed, copied or set memory
  int64_t backlog = 0;           // ns from its end until the devices had done what was asked for by then (backlog.h)
  int64_t work_time = 0;         // ns from the end of what was asked for before it to the end of what was by its end

  int64_t time() const { return end - start; }
  // Outside of the calls in which the thread may wait for a device, and so for other ranks.
  int64_t time_outside_waits() const {
    return time() - parts[static_cast<size_t>(Part::kCopies)] - parts[static_cast<size_t>(Part::kSynchronizes)];
  }
};

struct Interval {
  int64_t start = 0;
  int64_t end = 0;
};

// Times of which something is not known, for being asked whether an interval has one.
class Holes {
 public:
  explicit Holes(std::span<const Interval> holes);
  bool Touch(int64_t start, int64_t end) const;

 private:
  std::vector<Interval> holes_;  // by their starts, each as far as the longest of those up to it
};

// Steps that are unfinished already are left out, if there are others. Of the first ten steps, or the first quarter
// where there are fewer than forty, all up to the last one that takes more than twice the median of all steps are
// warm-up. A step that lies across one of `drops` is left out, and so is one across a time in which devices were not
// recorded. If that leaves none, those steps count after all, and the result says so. `steps` in the order of their
// starts; sets `use`.
struct Chosen {
  bool drops_everywhere = false;
  bool unwatched_everywhere = false;
};
Chosen ChooseSteps(std::span<const Interval> drops, std::span<const Interval> unwatched, std::vector<Step>* steps);

// Where the host is ahead of the devices, a step is over for the host before its work is, and the time of steps in
// which that backlog grows is the pace of launches. Of the measured steps, whose backlogs are known, the longest row up
// to the last one is kept in which it grows by no more than a twentieth of their time; the others are kAhead. Where it
// shrinks, the devices are faster than the host, and its time is that of a step. False: no such row has five steps and
// a quarter of them all. Then all stay, and only `work_time` is the time of a step. Sets `work_time` and `use`.
bool ChooseByBacklog(std::vector<Step>* steps);

// Whether a step takes so long that it has a cause of its own: more than 1.5 times the median, and above it by more
// than three times what p10 is below it. Nothing is said about fewer than four.
bool IsSlow(int64_t time, const Distribution& of);

// The time that the measured steps cover: ascending, and no two of them touch.
std::vector<Interval> MeasuredTime(std::span<const Step> steps);

}  // namespace slipstream::report
