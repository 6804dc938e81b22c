// Cuts the calls of a thread into steps at the line that begins one (step_finder.h).
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/trace/db/step_finder.h"

namespace slipstream::trace_db {

struct StepTime {
  int64_t start = 0;
  int64_t end = 0;
  uint64_t calls = 0;
};

class StepCutter {
 public:
  explicit StepCutter(const StepFinder::Found& line) : line_(line) {}

  uint32_t thread() const { return line_.thread; }
  uint32_t site() const { return line_.site; }
  // Each call of the thread, in order. A step that it ends.
  std::optional<StepTime> Add(uint32_t site, int64_t start, int64_t end);
  // The last step, to the end of its last call; none where it has less than half the calls that the others have: the
  // loop ended before it.
  std::optional<StepTime> Last() const;

 private:
  const StepFinder::Found line_;
  uint32_t visited_ = 0;
  std::optional<StepTime> open_;
  uint64_t steps_ = 0;  // that have ended
  uint64_t calls_ = 0;  // in them
};

}  // namespace slipstream::trace_db
