// The steps of a program's loop, while it runs: by the same rules as `slipstream report` finds them
// (tools/trace/db/survey.h), and as soon as there is enough to go by.
//
// Steps that the program recorded come first, then NVTX ranges that are named as steps, then the line that begins one.
// That line is looked for among what has been seen so far, and again each time there is a quarter more: what looked
// like the loop at first may have been its preparation. The calls that led to it are kept, so that no steps are lost
// when the line is found late.
//
// Memory: what StepFinder takes, kMostRecent calls, kMostNames kinds of ranges.
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
  // Looks for the line that begins a step, where that is worth it. After a number of records, not after each.
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
  };
  void AddCall(const tracer::SpoolRecord& record);
  void AddRange(const tracer::SpoolRecord& record);
  void Cut(const Call& call);
  using Ranges = std::map<std::pair<std::string, uint32_t>, StepHistory>;  // by kind of name and thread
  Ranges::const_iterator StepRanges() const;

  const tracer::SpoolReader& reader_;
  trace_db::LinesOfSites lines_;
  trace_db::StepFinder finder_;
  size_t find_at_ = 0;  // visits
  std::unordered_map<uint16_t, bool> copies_;
  std::deque<Call> recent_;
  std::optional<trace_db::StepCutter> cutter_;
  StepHistory recorded_;
  StepHistory cut_;
  std::unordered_map<uint32_t, std::string> bases_;  // by the number of a range's name; empty: no step's
  Ranges ranges_;
};

}  // namespace slipstream::top
