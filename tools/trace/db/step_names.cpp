#include "tools/trace/db/step_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace slipstream::trace_db {
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

std::optional<StepName> StepNameOf(std::string_view text) {
  constexpr size_t kLongest = 64;
  if (text.size() > kLongest) return std::nullopt;
  size_t end = text.size();
  while (end > 0 && IsDigit(text[end - 1])) --end;
  StepName name;
  uint64_t number = 0;
  const auto [last, problem] = std::from_chars(text.data() + end, text.data() + text.size(), number);
  if (end != text.size()) {
    if (problem != std::errc()) return std::nullopt;  // no number of a step has so many digits
    name.number = number;
  }
  std::string_view base = text.substr(0, end);
  while (!base.empty() && std::string_view(" #:_-=").find(base.back()) != std::string_view::npos) base.remove_suffix(1);
  std::transform(base.begin(), base.end(), std::back_inserter(name.base), Simple);
  if (std::find(kBases.begin(), kBases.end(), name.base) == kBases.end()) return std::nullopt;
  return name;
}

}  // namespace slipstream::trace_db
