// What the measured steps would take without some of their calls, waits or device work: the recorded events, gone
// through once more.
//
// The host goes through its calls, and through the time between them, in their order. A call that waited for the device
// ends again when that work ends. The work of a stream runs in the order in which it was asked for, and begins when it
// has been asked for, the work before it has ended, and so has what it waited for on another stream. All that is not
// changed takes as long as it took; with no change at all, the result is the recorded time exactly.
//
// A device takes about a thousand pieces of work in advance. A call that lasted while so many were pending waited for
// room, and does so again.
//
// Copies can be moved to a stream of their own (StreamChange), as a program does that copies the next batch while it
// computes the present one. There they take as long as they took, one behind the other for each engine, in the order in
// which they are asked for; what they waited for on a third stream they wait for still.
//
//   - kAhead: a step before the work that needs it. So in each step the copies of the next one are asked for where
//     its own were, and what came behind them on their old stream, or waited for them on another one, waits for their
//     counterparts of the step before: of the same group, as many of it before it in the step, or else the last one. A
//     copy that the step before has none of is asked for where that step began, and is needed where it was. Those of
//     the first step of a stretch came before it.
//   - kAside: it waits as before, and nothing behind it on its old stream waits for it.
//
// The host waits for a copy aside where it waited for the copy, or for work behind it on its old stream; for a copy
// ahead where it waited for that one alone, so a change says which of these calls return; and in a synchronization of
// the device for all that was moved.
//
// What the replay does not know: that a device has one memory and one bus, so that copies and kernels which come to run
// beside each other may both take longer, and those that stay on their stream do not queue with those that were moved;
// that a copy needs what was computed in the step before, or its host memory; that a step needs memory for two batches;
// and what a call does when it has no work (a change says that it is gone, or that it returns at once).
//
// Threading: immutable once made.
// Memory: about 100 bytes for each call and piece of work of the measured steps, up to kMostEvents of them.
// Times are ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tools/trace/report/steps.h"

namespace slipstream::advise {

enum class CallChange : uint8_t {
  kStays,
  kReturns,  // without waiting: after kReturnsAfter at the latest
  kGone,
};
inline constexpr int64_t kReturnsAfter = 10'000;

// Of copies; see above.
enum class StreamChange : uint8_t { kStays, kAside, kAhead };

// A change to a program, by the groups of the facts. A list that is too short says that the others stay.
struct WhatIf {
  std::vector<CallChange> calls;  // by the index of Facts::calls
  std::vector<int64_t> gaps;      // likewise: time of the host right before those calls is gone where it is no longer
  std::vector<double> host;       // likewise: the share of the time in and right before those calls that stays, 0 to 1
  std::vector<double> work;       // by the index of Facts::work: the share of its time that stays, 0 to 1
  std::vector<StreamChange> streams;  // likewise

  bool empty() const { return calls.empty() && gaps.empty() && host.empty() && work.empty() && streams.empty(); }
  // Both changes.
  void Add(const WhatIf& other);
};

class Replay {
 public:
  static constexpr size_t kMostEvents = 2'000'000;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  enum class Waits : uint8_t { kNever, kForTheDevice, kForItsStream, kForAnEvent, kForItsOwnWork };
  struct Call {
    int64_t start = 0;
    int64_t end = 0;
    uint32_t group = kNone;  // of Facts::calls
    bool of_step_thread = true;
    Waits waits = Waits::kNever;
    uint32_t stream = kNone;  // of Work; kNone: not known
    int64_t recording = 0;    // of its time: what a recording of the devices added
  };
  struct Work {
    int64_t start = 0;
    int64_t end = 0;
    uint32_t group = kNone;  // of Facts::work
    uint32_t stream = 0;     // any number
    uint32_t call = kNone;   // that asked for it; kNone: not known
    uint32_t engine = 0;     // any number; one makes one moved copy at a time
  };
  // Of a stretch of measured time.
  struct Events {
    report::Interval time;
    std::vector<Call> calls;          // in the order of their starts
    std::vector<Work> work;           // in any order
    std::vector<int64_t> steps = {};  // when they begin, ascending; empty: it is all one step
  };

  // `steps`: how many the stretches have together, at least one.
  Replay(std::vector<Events> stretches, int64_t steps);

  // What a step takes without a change, its device work included that ends behind it.
  int64_t Recorded() const { return recorded_ / steps_; }
  // Without what the recording added to its calls.
  int64_t Unrecorded() const { return unrecorded_ / steps_; }
  // By how much a step that nobody records would be shorter, 0 or more.
  int64_t Saved(const WhatIf& what_if) const;

 private:
  // A time in which the host is in one call, or in none.
  struct Piece {
    int64_t start = 0;
    int64_t time = 0;
    uint32_t group = kNone;  // of the call, or of the one that comes next
    bool is_call = false;
    uint32_t wait = kNone;  // the work that it waits for
    bool for_all = false;   // and for all that was asked for before
    int64_t own = 0;        // what it takes if that has ended
    int64_t tail = 0;       // how long it goes on behind the end of that work; below 0: the clocks differ
    int64_t recording = 0;  // of `time`; 0 where it waits
  };
  struct Op {
    uint32_t group = kNone;
    uint32_t piece = 0;       // in which it was asked for
    uint32_t before = kNone;  // on its stream
    uint32_t other = kNone;   // of another stream, which it waited for
    uint32_t engine = 0;
    uint32_t step_before = kNone;  // the piece with which that begins; kNone: the step is the stretch's first
    uint32_t counterpart = kNone;  // of the step before; kNone: it has none
    int64_t end = 0;               // as recorded
    int64_t time = 0;
    int64_t offset = 0;   // since the start of the piece
    int64_t latency = 0;  // from being asked for to its begin
    int64_t gap = 0;      // behind `before`
    int64_t other_gap = 0;
  };
  struct Stretch {
    int64_t start = 0;
    int64_t gap = 0;  // between two copies of an engine
    std::vector<Piece> pieces;
    std::vector<Op> ops;  // in the order in which they were asked for
  };
  struct Usual {
    int64_t latency = 0;
    int64_t gap = 0;
  };
  class Host;
  class Device;

  static void Sort(Events* events);
  static Usual UsualOf(const std::vector<Events>& stretches);
  static Stretch Prepare(const Events& events, const Usual& usual);
  class Waited;
  static void FindCounterparts(const Events& events, Stretch* stretch);
  enum class Recording : uint8_t { kStays, kGone };
  static int64_t Run(const Stretch& stretch, const WhatIf& what_if, Recording recording);
  int64_t Run(const WhatIf& what_if, Recording recording) const;

  std::vector<Stretch> stretches_;
  int64_t steps_ = 1;
  int64_t recorded_ = 0;
  int64_t unrecorded_ = 0;
};

}  // namespace slipstream::advise
