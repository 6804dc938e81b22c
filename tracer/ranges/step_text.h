// Whether the name of an NVTX range is that of a step of the program's loop, as PyTorch's profiler ("ProfilerStep#7")
// and people ("step 7", "train_iteration") call them.
//
// Threading: pure. No allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace slipstream::tracer {

class StepText {
 public:
  static constexpr size_t kLongest = 64;

  // None: the text names no step.
  static std::optional<StepText> Of(std::string_view text);

  // "profilerstep", "train step": in small letters, without number, '_' as a space.
  std::string_view base() const { return {base_.data(), size_}; }
  const std::optional<uint64_t>& number() const { return number_; }

 private:
  std::array<char, kLongest> base_{};
  size_t size_ = 0;
  std::optional<uint64_t> number_;
};

}  // namespace slipstream::tracer
