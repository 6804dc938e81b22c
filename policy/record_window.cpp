#include "policy/record_window.h"

#include <algorithm>

#include "policy/number.h"

namespace slipstream::policy {

std::optional<RecordWindow> RecordWindow::Parse(std::string_view text) {
  RecordWindow window;
  if (text.empty()) return window;
  constexpr std::string_view kSteps = "steps ";
  constexpr std::string_view kSeconds = "seconds ";
  const bool steps = text.starts_with(kSteps);
  if (!steps && !text.starts_with(kSeconds)) return std::nullopt;
  window.unit_ = steps ? Unit::kSteps : Unit::kSeconds;
  text.remove_prefix(steps ? kSteps.size() : kSeconds.size());
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    const std::optional<std::uint64_t> from = NumberIn<std::uint64_t>(part.substr(0, dash));
    std::optional<std::uint64_t> to = from;
    if (dash != std::string_view::npos) {
      const std::string_view end = part.substr(dash + 1);
      to = end.empty() ? kNoEnd : NumberIn<std::uint64_t>(end);
    }
    // A single number is a step; of seconds it would be nothing.
    if (!from || !to || *to < *from || (!steps && *to == *from) || window.count_ == kMostParts) return std::nullopt;
    window.parts_[window.count_++] = {.from = *from, .to = *to};
    if (comma == std::string_view::npos) return window;
    text.remove_prefix(comma + 1);
  }
}

bool RecordWindow::Has(std::uint64_t at) const {
  if (unit_ == Unit::kAlways) return true;
  return std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(count_), [&](const Part& part) {
    return at >= part.from && (at < part.to || (unit_ == Unit::kSteps && at == part.to));
  });
}

}  // namespace slipstream::policy
