// Finds the waits that slipstream skipped, and how long each would have lasted. It reads device work in the order in
// which it was asked for, beside the calls.
//
// A skipped cudaStreamSynchronize would have waited for the earlier work of its stream, and so would a promoted
// cudaMemcpy from pageable memory. Only certain waits count: for work of the same stream, by a call that began earlier.
// docs/report.md has the details.
//
// Memory: a little for each thread and stream.
// Threading, errors: as the reader.
// Ownership: the table's steps, and the functions that calls name, must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/trace/report/decision_text.h"
#include "tools/trace/report/host_ahead.h"
#include "tools/trace/report/processes.h"
#include "tools/trace/report/rows.h"
#include "tools/trace/report/stream_work.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {

class AvoidedWaits {
 public:
  // Steps are chosen.
  AvoidedWaits(trace_db::DatabaseReader* reader, ProcessTable* table, run::Names* names, DecisionNames* decisions);

  struct Call {
    int64_t thread = 0;
    bool of_step_thread = false;
    bool measured = false;  // it began in the measured time
    int64_t start = 0;
    int64_t end = 0;
    const Function* function = nullptr;
    int64_t stream = 0;  // as the call named it
    int64_t bytes = 0;
    int64_t decision = 0;  // 0: none
    int64_t saved = 0;
  };
  // In the order of their starts, of all processes.
  void Add(size_t process, const Call& call);
  // Whether all work that was asked for before that moment had ended by then. False where it is not known. Moments in
  // the order of the calls.
  bool Idle(size_t process, int64_t time);
  // Call it after the last one.
  void Finish(size_t process);

 private:
  struct Thread {
    explicit Thread(const std::vector<Interval>* measured) : ahead(measured) {}
    HostAhead ahead;
    bool of_step_thread = false;
  };
  struct Process {
    bool known = false;  // its devices were recorded
    std::vector<Interval> measured;
    // Of the bound: as if there were one thread, which is ahead where any is; and at each end of the measured time, how
    // long that goes on.
    HostAhead any{&measured};
    size_t ended = 0;   // of `measured`
    int64_t until = 0;  // of all waits skipped so far
    int64_t pending = 0;
    std::set<StreamWork::Stream> streams;  // with work in that time
    int64_t last_end = 0;                  // of the work so far
    StreamWork work;
    std::unordered_map<int64_t, Thread> threads;
    std::array<uint64_t, kSkippedBy> skipped{};
    uint64_t behind_work = 0;
    uint64_t stream_unknown = 0;
  };

  // Takes the work that was asked for before.
  void WorkUpTo(int64_t time);
  static void SkippedByAny(Process* process, int64_t start, int64_t until);
  static void PassEnds(Process* process, int64_t time);
  void FinishBound(size_t process, AheadReport* report);
  void AddWork();

  ProcessTable& table_;
  run::Names& names_;
  DecisionNames& decisions_;
  std::deque<Process> processes_;
  Rows work_;
  bool has_work_ = false;  // pieces of work were read
};

}  // namespace slipstream::report
