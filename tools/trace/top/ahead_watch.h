// Sums how long a running program went on where it would have waited for a device without slipstream, over the last
// seconds. `slipstream report` says this for a whole run (tools/trace/report/avoided_waits.h).
//
// A call is judged when the work that it asked for is recorded, which is up to half a second after the work has ended;
// a call whose work is not there after kPatienceNs is judged without it, which makes the figure smaller, never larger.
// Calls are taken in the order in which they ended.
//
// Memory: kMostCalls calls and pieces of work; a little for each thread and stream.
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/trace/report/host_ahead.h"
#include "tools/trace/report/stream_work.h"
#include "tools/trace/top/view.h"

namespace slipstream::top {

class AheadWatch {
 public:
  static constexpr size_t kMostCalls = size_t{1} << 18;
  static constexpr uint64_t kPatienceNs = 5'000'000'000;

  struct Call {
    uint32_t thread = 0;
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    uint64_t bytes = 0;
    uint64_t stream = 0;
    int64_t saved_ns = 0;
    uint32_t correlation = 0;  // 0: it asked for nothing
    bool hooked = true;        // else its stream is not known
    report::CallKind kind = report::CallKind::kOther;
    bool names_its_stream = false;  // and what it did was on that stream
    bool makes_it_return = false;   // by its decision
    bool skips_a_wait = false;      // by function and decision
    bool destroys_its_stream = false;
  };
  struct Work {
    uint32_t correlation = 0;
    uint32_t context = 0;
    uint32_t stream = 0;
    bool of_graph = false;
    uint64_t end_ns = 0;  // of CLOCK_MONOTONIC
  };
  void Add(const Call& call);
  void Add(const Work& work);

  // All that devices had done by then has been added.
  void Advance(uint64_t complete_to_ns);
  // Recording of devices begins or ends now: what came before says nothing about what follows.
  void Restart();

  // Over the last `window_ns`. Nothing: no call has been judged in it.
  std::optional<AheadView> Look(uint64_t window_ns) const;

 private:
  struct Thread {
    explicit Thread(const std::vector<report::Interval>* always) : ahead(always) {}
    report::HostAhead ahead;
    uint64_t skipped = 0;
    uint64_t unknown = 0;
  };
  struct Sample {  // of the thread with the most skipped waits, since Restart
    uint32_t thread = 0;
    uint64_t time_ns = 0;
    int64_t net_ns = 0;
    uint64_t skipped = 0;
    uint64_t unknown = 0;
  };

  bool IsReady(const Call& call, uint64_t complete_to_ns) const;
  void Judge(const Call& call);
  void TakeSample(uint64_t time_ns);

  static const std::vector<report::Interval>& Always();

  std::deque<Call> calls_;
  std::unordered_multimap<uint32_t, Work> works_;  // by correlation
  std::deque<uint32_t> order_;                     // of works_, the oldest first; with those that are gone
  report::StreamWork streams_;
  std::optional<uint32_t> context_;
  std::unordered_map<uint32_t, Thread> threads_;
  std::deque<Sample> samples_;
};

}  // namespace slipstream::top
