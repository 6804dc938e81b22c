// Which of a program's NVTX ranges are the steps of its loop: by their names, as PyTorch's profiler ("ProfilerStep#7")
// and people ("step 7", "train_iteration") call them, and by which of them lie within others.
//
// Threading: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::trace_db {

struct StepName {
  std::string base;  // "profilerstep", "train step": in small letters, without number, '_' as a space
  std::optional<uint64_t> number;
};

// None: the text names no step.
std::optional<StepName> StepNameOf(std::string_view text);

// In ns, of any clock.
struct RangeTimes {
  uint64_t start = 0;
  uint64_t end = 0;
};
// Of each of these ranges, which one thread ended in this order and whose names have one base, whether it is a step.
// Those are the outermost ones. But a range that holds two others or more, and more than half of all the others, is
// around the loop and no step; those directly within it are as if it were not there. Takes n log n for n of them.
std::vector<bool> StepsAmong(std::span<const RangeTimes> ranges);

}  // namespace slipstream::trace_db
