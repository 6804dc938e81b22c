// The whole time of a process, from its beginning to its last record, in parts that add up to it to the nanosecond:
// what was before the steps, between them and behind them, and what kind of work that was as far as its calls tell.
//
// Calls and copies are given in the order of their starts; none is kept.
//
// Memory: a few numbers for each step and for each pause between two, and a time for each line and part.
// Threading: an object belongs to one thread.
// Times are ns of the trace's clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"

namespace slipstream::report {

enum class WallPart : uint8_t {
  kStartUp,     // before the first step; without steps, before the first record
  kWarmUp,      // these six are steps, by StepUse
  kMeasured,    //
  kDropped,     //
  kUnwatched,   //
  kUnfinished,  //
  kAhead,       //
  kBetween,     // a pause between two steps: what the loop does outside of them
  // Longer than pauses are, and with calls that pauses do not have:
  kEvaluation,  // at lines that are not the loop's, with launches
  kCheckpoint,  // without launches, and most of the bytes that it copied came from a device
  kOther,       // neither is sure, or records are missing
  kAfter,       // behind the last step
  kNoSteps,     // all that was recorded, where no steps are known
  kPaused,      // the recording was paused, as the policy or somebody wanted it
};
inline constexpr size_t kWallParts = 14;
// As the JSON spells it.
std::string_view NameOf(WallPart part);

// What it is made from.
struct WallSpan {
  int64_t begin = 0;  // of the process
  int64_t first = 0;  // record
  int64_t last = 0;
  bool has_steps = false;
  bool found = false;                    // the steps were, by a line: what lies between two of them was cut off
  std::span<const Step> steps = {};      // chosen, in the order of their starts
  std::span<const Interval> drops = {};  // when records are missing
  // When the recording was paused, in the order of their starts. No step has a part of one.
  std::span<const Interval> paused = {};
};

// In the time of a pause that is no ordinary one.
struct PhaseCalls {
  uint64_t calls = 0;            // of the thread that makes the steps
  uint64_t foreign = 0;          // of them, those at a line that neither a step nor an ordinary pause had before
  uint64_t launches = 0;         // of any thread
  int64_t to_host = 0;           // bytes copied, by the devices' records
  int64_t to_device = 0;         //
  int64_t called_to_host = 0;    // bytes that calls copied, where slipstream noted the direction
  int64_t called_to_device = 0;  //
};
// `most_calls`: of an ordinary pause so far.
WallPart PhaseOf(const PhaseCalls& calls, bool found, uint64_t most_calls);

class WallSweep {
 public:
  // The steps must outlive it.
  explicit WallSweep(const WallSpan& span);

  enum class Direction : uint8_t { kUnknown, kToHost, kToDevice };
  struct Call {
    int64_t start = 0;
    int64_t end = 0;
    bool of_step_thread = false;
    CallKind kind = CallKind::kOther;
    int64_t site = 0;  // siteId; 0: no line is known
    int64_t bytes = 0;
    Direction copied = Direction::kUnknown;  // of a copy
  };
  void Add(const Call& call);
  // Of a device's own record.
  void AddDeviceCopy(int64_t start, Direction direction, int64_t bytes);
  // Nothing more comes.
  void Finish();

  // ---- after Finish()
  struct Most {
    int64_t site = 0;
    bool before = false;  // as in Place
    int64_t time = 0;     // in calls of the line and before them
  };
  struct Sum {
    int64_t time = 0;
    uint64_t count = 0;  // steps, pauses, phases
    // The line with most of the time, of the thread that makes the steps; nothing: more of it is before no call.
    std::optional<Most> most;
  };
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  const Sum& Of(WallPart part) const { return sums_[static_cast<size_t>(part)]; }
  // Of each two measured steps, one behind the other, with nothing but a pause between them, or nothing: from the end
  // of one to the start of the next, and from start to start. In order.
  const std::vector<int64_t>& pauses() const { return pauses_; }
  const std::vector<int64_t>& paces() const { return paces_; }

 private:
  struct Piece {
    int64_t start = 0;
    int64_t end = 0;
    WallPart part = WallPart::kOther;  // of a pause that may be a phase: kOther until it has ended
    size_t phase = 0;                  // of phases_, from 1; 0: it is none
  };
  struct SiteTime {
    int64_t in = 0;
    int64_t before = 0;
  };
  using SiteTimes = std::map<int64_t, SiteTime>;  // by site

  static bool IsStep(WallPart part) { return part >= WallPart::kWarmUp && part <= WallPart::kAhead; }
  void LayOut(const WallSpan& span);
  void AddPause(int64_t start, int64_t end, const Holes& drops, int64_t long_from);
  // Pieces outside of steps: where the recording was paused, they are kPaused.
  void Put(int64_t start, int64_t end, WallPart part);
  // How long a pause must be for a phase.
  static int64_t LongPause(const WallSpan& span);
  // The piece that a row begins in; null: none.
  Piece* At(int64_t start);
  void Count(const Call& call);
  void Spend(int64_t from, int64_t to, int64_t site, bool before);
  // Pieces that nothing more is added to.
  void Close(int64_t until);
  void TakePauses();

  const std::span<const Interval> paused_;
  const std::span<const Step> steps_;
  const bool found_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  std::vector<Piece> pieces_;        // each begins where the one before it ends
  std::vector<size_t> before_step_;  // of each step, the pause before it, from 1; 0: there is none
  std::vector<PhaseCalls> phases_;
  std::unordered_set<int64_t> usual_;  // lines that steps and ordinary pauses had so far
  uint64_t pause_calls_ = 0;           // of the pause that the rows are in
  uint64_t most_calls_ = 0;
  size_t now_ = 0;       // piece that the rows are in
  size_t spending_ = 0;  // that the step thread's time is in
  int64_t spent_ = 0;    // the step thread's time up to here
  size_t closed_ = 0;
  std::map<size_t, SiteTimes> open_;  // by piece
  std::array<SiteTimes, kWallParts> sites_;
  std::array<Sum, kWallParts> sums_;
  std::vector<int64_t> pauses_;
  std::vector<int64_t> paces_;
};

}  // namespace slipstream::report
