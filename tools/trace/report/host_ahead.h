// Sums how long a thread went on while device work was still running that it would have waited for without slipstream.
// It takes the thread's calls in the order of their starts.
//
// A skipped wait ends for the thread when its call returns, and would have ended no earlier than the work. In between
// the thread is ahead. Each moment counts once, however many waits were skipped: the host can wait in one place only.
// It is put down to the first of them, where the host would have stopped.
// Time in calls that wait themselves does not count as going on.
//
// Memory: nothing for a call; a little for each change between kinds of skipped waits that are pending.
// Threading: an object belongs to one thread.
// Ownership: the measured time must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/steps.h"

namespace slipstream::report {

// What would have waited.
enum class SkippedBy : uint8_t { kSynchronization, kCopy };
inline constexpr size_t kSkippedBy = 2;
using BySkipped = std::array<int64_t, kSkippedBy>;

// Of the measured time.
struct AheadTimes {
  std::array<int64_t, kHostStates> went_on{};  // ahead, by what the thread was doing
  BySkipped by{};                              // the same time, by what would have waited
  int64_t waited_later = 0;                    // ahead, and in a call that waits
  int64_t added = 0;                           // waited because of slipstream while it was not ahead

  int64_t all_went_on() const;
  int64_t net() const { return all_went_on() - added; }
  void Add(const AheadTimes& other);
};

class HostAhead {
 public:
  // Ascending, and no two of them touch.
  explicit HostAhead(const std::vector<Interval>* measured) : measured_(*measured) {}

  struct Call {
    int64_t start = 0;
    int64_t end = 0;
    CallKind kind = CallKind::kOther;
    bool waits = false;  // it is one in which the host may have waited for the device
    int64_t lost = 0;    // of it, what slipstream made it wait
  };
  void Add(const Call& call);
  // The last call added skipped a wait that would have ended no earlier than this.
  void Skipped(int64_t until, SkippedBy by = SkippedBy::kSynchronization);

  const AheadTimes& times() const { return times_; }

 private:
  // What would hold the thread from the end of the one before, or from now.
  struct Held {
    int64_t until = 0;
    SkippedBy by = SkippedBy::kSynchronization;
  };

  // How much of it is ahead and measured, which is added to `by` too unless that is null; nothing in it lies before
  // what was asked for before.
  int64_t Ahead(int64_t from, int64_t to, BySkipped* by);
  void PutDown(int64_t from, int64_t to, BySkipped* by) const;

  const std::vector<Interval>& measured_;
  size_t first_ = 0;  // of measured_: those before it have ended
  bool begun_ = false;
  int64_t now_ = 0;        // the end of the calls so far
  int64_t until_ = 0;      // until when what was skipped would have held the thread
  std::deque<Held> held_;  // ascending; the last one until `until_`
  AheadTimes times_;
};

}  // namespace slipstream::report
