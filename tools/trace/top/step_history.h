// The last steps of a loop, and what can be said about them.
//
// Threading: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "tools/trace/top/view.h"

namespace slipstream::top {

inline constexpr size_t kStepsShown = 64;
inline constexpr size_t kTrendParts = 6;  // of them, where each has two steps

class StepHistory {
 public:
  void Add(uint64_t start_ns, uint64_t end_ns);
  uint64_t seen() const { return seen_; }
  uint64_t last_end_ns() const { return steps_.empty() ? 0 : steps_.back().end; }
  // Without `how` and since_last_ns. Nothing: there was no step.
  std::optional<StepsView> Look() const;
  // How many lie between the two, by parts; nothing where that is further back than the steps that are kept.
  std::optional<double> Between(uint64_t from_ns, uint64_t to_ns) const;

 private:
  // For Between, which may look at a window of many short steps.
  static constexpr size_t kMost = size_t{1} << 16;
  struct Step {
    uint64_t start;
    uint64_t end;
  };
  std::deque<Step> steps_;
  uint64_t seen_ = 0;
};

}  // namespace slipstream::top
