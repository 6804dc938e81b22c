#include "policy/site.h"

#include <charconv>

namespace slipstream::policy {

std::optional<Site> ParseSite(std::string_view text) noexcept {
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    int line = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), line);
    const bool number = !digits.empty() && end == digits.data() + digits.size() && digits.front() != '-';
    if (number) {
      if (error != std::errc() || line == Site::kAnyLine || colon == 0) return std::nullopt;
      return Site{.file = text.substr(0, colon), .line = line};
    }
  }
  // "train.py:" is a line that was forgotten.
  if (text.empty() || text.back() == ':' || text.back() == '/') return std::nullopt;
  return Site{.file = text, .line = Site::kAnyLine};
}

bool Matches(const Site& wanted, const Site& at) noexcept {
  if (wanted.line != Site::kAnyLine && wanted.line != at.line) return false;
  if (!at.file.ends_with(wanted.file)) return false;
  const std::size_t before = at.file.size() - wanted.file.size();
  return before == 0 || wanted.file.front() == '/' || at.file[before - 1] == '/';
}

}  // namespace slipstream::policy
