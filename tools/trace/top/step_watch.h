// The steps of a program's loop, while it runs: by the same rules as `slipstream report` finds them
// (tools/trace/db/survey.h), and as soon as there is enough to go by.
//
// Steps that the program recorded come first, then NVTX ranges that are named as steps, then the line that begins one.
// That line is looked for among what has been seen so far, and again each time there is a quarter more: what looked
// like the loop at first may have been its preparation. The calls that led to it are kept, so that no steps are lost
// when the line is found late.
//
// Where that line brings no batch to the device, steps are looked for by launches too (LaunchSequence), among the last
// kMostRecent calls and no more than once in a second: what of them ended since is added to those that were found
// before. Where both find steps of about one length, the line tells more.
//
// Memory: what StepFinder takes, kMostRecent calls and kernels, kMostNames kinds of ranges.
// Threading: an object belongs to one thread.
// Ownership: the reader must outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "tools/trace/db/launch_sequence.h"
#include "tools/trace/db/step_cutter.h"
#include "tools/trace/db/step_finder.h"
#include "tools/trace/top/step_history.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::top {

class StepWatch {
 public:
  static constexpr size_t kMostRecent = size_t{1} << 15;
  static constexpr size_t kMostNames = 64;

  explicit StepWatch(const tracer::SpoolReader& reader) : reader_(reader), lines_(reader) {}

  // Each record, in the reader's order.
  void Add(const tracer::SpoolRecord& record);
  // Looks for what a step is, where that is worth it. After a number of records, not after each.
  void Find();

  // Null: no steps are known.
  const StepHistory* Steps() const;
  // Where they come from: "NVTX ranges named train step".
  std::string How() const;

 private:
  struct Call {
    uint32_t thread;
    uint32_t line;
    int64_t start;
    int64_t end;
    uint64_t copied;
    uint16_t function;
    uint32_t correlation;
  };
  struct Function {
    bool copies = false;
    bool asks_for_work = false;
    bool is_graph = false;
  };
  void AddCall(const tracer::SpoolRecord& record);
  void AddRange(const tracer::SpoolRecord& record);
  void Cut(const Call& call);
  void FindLine();
  void FindLaunches();
  bool ByLaunches() const;
  using Ranges = std::map<std::pair<std::string, uint32_t>, StepHistory>;  // by kind of name and thread
  Ranges::const_iterator StepRanges() const;

  const tracer::SpoolReader& reader_;
  trace_db::LinesOfSites lines_;
  trace_db::StepFinder finder_;
  size_t find_at_ = 0;  // visits
  std::unordered_map<uint16_t, Function> functions_;
  std::deque<Call> recent_;
  std::deque<std::pair<uint32_t, uint32_t>> kernels_;  // the last ones: correlation, name
  std::optional<trace_db::StepCutter> cutter_;
  bool line_copies_ = false;  // the one that begins a step
  struct Launched {
    uint32_t site = 0;
    size_t launches = 0;
    uint64_t until = 0;  // of the last step that was added
    StepHistory steps;
  };
  Launched launched_;
  int64_t launches_at_ = 0;  // looked for at that call's start
  StepHistory recorded_;
  StepHistory cut_;
  std::unordered_map<uint32_t, std::string> bases_;  // by the number of a range's name; empty: no step's
  Ranges ranges_;
};

}  // namespace slipstream::top
