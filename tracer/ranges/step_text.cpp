#include "tracer/ranges/step_text.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace slipstream::tracer {
namespace {

constexpr std::array<std::string_view, 11> kBases = {
    "profilerstep", "step",          "train step", "training step",   "global step",        "iteration",
    "iter",         "training iter", "train iter", "train iteration", "training iteration",
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

char Simple(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '_' || c == '-' ? ' ' : c;
}

}  // namespace

std::optional<StepText> StepText::Of(std::string_view text) {
  if (text.size() > kLongest) return std::nullopt;
  size_t end = text.size();
  while (end > 0 && IsDigit(text[end - 1])) --end;
  StepText step;
  uint64_t number = 0;
  const auto [last, problem] = std::from_chars(text.data() + end, text.data() + text.size(), number);
  if (end != text.size()) {
    if (problem != std::errc()) return std::nullopt;  // no number of a step has so many digits
    step.number_ = number;
  }
  std::string_view base = text.substr(0, end);
  while (!base.empty() && std::string_view(" #:_-=").find(base.back()) != std::string_view::npos) base.remove_suffix(1);
  std::transform(base.begin(), base.end(), step.base_.begin(), Simple);
  step.size_ = base.size();
  if (std::find(kBases.begin(), kBases.end(), step.base()) == kBases.end()) return std::nullopt;
  return step;
}

}  // namespace slipstream::tracer
