// Cuts the calls of a thread into steps at the line that begins one (step_finder.h), and off them what is no part of
// the loop: an evaluation, a checkpoint.
//
// A line is foreign that hardly any step visits. What foreign lines do is cut off from a step that takes more than 1.5
// times the median if
//   - it is a loop, which visits one of them kLoopVisits times or more, or copies kMuchCopied bytes or more at one; and
//   - every line of the step's own that the step visits came before: a branch in the midst of a step is part of it.
// Then the step ends with the last call before the first of these foreign lines. Nobody knows how much longer it went
// on, and so it is unfinished. A step that is slow at the loop's own lines is slow, and nothing is cut off.
//
// A line that kOften steps visit, one fewer than kSeldom steps behind the other in the mean, is part of the loop from
// there on, whatever it was before.
//
// Limit: an evaluation at the very lines of the training is taken for steps.
//
// Memory: the lines of the loop, kMostForeign of an open step, kMostRecent that may become part of the loop.
// Threading: an object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "tools/trace/db/step_finder.h"

namespace slipstream::trace_db {

struct StepTime {
  int64_t start = 0;
  int64_t end = 0;
  uint64_t calls = 0;
  bool is_unfinished = false;  // it went on for an unknown time behind `end`
};

class StepCutter {
 public:
  static constexpr uint64_t kLoopVisits = 3;
  static constexpr uint64_t kMuchCopied = uint64_t{1} << 20;
  static constexpr size_t kMostForeign = 256;
  static constexpr size_t kOften = 4;
  static constexpr size_t kMostRecent = 1024;

  explicit StepCutter(const StepFinder::Found& line);

  uint32_t thread() const { return line_.thread; }
  uint32_t site() const { return line_.site; }
  // Each call of the thread, in order. `copied`: bytes, 0 of what is no copy. A step that it ends.
  std::optional<StepTime> Add(uint32_t site, int64_t start, int64_t end, uint64_t copied = 0);
  // The last step, to the end of its last call before the first foreign line, always unfinished; none where it has less
  // than half the calls that the others have: the loop ended before it.
  std::optional<StepTime> Last() const;

 private:
  // Foreign lines, one behind the other.
  struct Run {
    int64_t from = 0;    // the end of the last call before them
    uint64_t calls = 0;  // of the step, before them
    size_t own = 0;      // of its own lines, likewise
  };
  struct Foreign {
    uint64_t visits = 0;
    uint64_t copied = 0;
    Run run;  // that it came in first
  };
  struct Line {
    bool is_own = false;
    uint64_t step = 0;  // that visited it last
  };

  void Visit(uint32_t site);
  // Of a foreign line that the open step visits for the first time: whether it is one no more.
  bool IsOften(uint32_t site);
  StepTime WithoutForeign(StepTime step, bool is_last) const;

  const StepFinder::Found line_;
  std::unordered_map<uint32_t, Line> lines_;  // of the loop; empty: not known, and none is foreign
  uint32_t visited_ = 0;
  std::optional<StepTime> open_;
  uint64_t begun_ = 0;  // steps
  size_t own_ = 0;      // of its own lines, that the open step has visited
  std::optional<Run> run_;
  std::map<uint32_t, Foreign> foreign_;  // of the open step, by site
  // Of foreign lines, the last steps that visited them: a ring that begins at the earliest.
  struct Recent {
    std::array<uint64_t, kOften> steps{};
    size_t count = 0;
  };
  std::unordered_map<uint32_t, Recent> recent_;
  uint64_t steps_ = 0;  // that have ended
  uint64_t calls_ = 0;  // in them
};

}  // namespace slipstream::trace_db
