// Which of a program's NVTX ranges are the steps of its loop: by their names, as PyTorch's profiler ("ProfilerStep#7")
// and people ("step 7", "train_iteration") call them.
//
// Threading: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slipstream::trace_db {

struct StepName {
  std::string base;  // "profilerstep", "train step": in small letters, without number, '_' as a space
  std::optional<uint64_t> number;
};

// None: the text names no step.
std::optional<StepName> StepNameOf(std::string_view text);

}  // namespace slipstream::trace_db
