// A percentage on the command line.
//
// Threading: pure functions.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace slipstream::cli {

inline constexpr double kMostPercent = 1000;

// "3", "3%", "2.5", "2.5 %": digits, one point at most among them, and the sign if it is there; from 0 to kMostPercent.
// The share: 0.03. Nothing: it is written in any other way.
inline std::optional<double> ParsePercent(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  if (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || percent > kMostPercent) return std::nullopt;
  return percent / 100;
}

}  // namespace slipstream::cli
