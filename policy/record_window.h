// Which part of a process's life is recorded, as the policy says it: tracer.window.
//
//   "steps 10-20"        steps 10 to 20
//   "steps 10-20,500-"   and all from 500 on
//   "seconds 30-60"      from 30 s after the first use of CUDA up to 60 s
//   ""                   all of it
//
// Threading: plain data and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace slipstream::policy {

class RecordWindow {
 public:
  static constexpr size_t kMostParts = 16;
  static constexpr std::uint64_t kNoEnd = UINT64_MAX;

  enum class Unit : std::uint8_t { kAlways, kSteps, kSeconds };

  // Nothing: that is none.
  static std::optional<RecordWindow> Parse(std::string_view text);

  Unit unit() const { return unit_; }
  // Whether this step is in it, or what happens so many whole seconds after the beginning.
  bool Has(std::uint64_t at) const;

 private:
  // Of steps the last one is in it, of seconds it is not.
  struct Part {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };

  Unit unit_ = Unit::kAlways;
  size_t count_ = 0;
  std::array<Part, kMostParts> parts_{};
};

}  // namespace slipstream::policy
