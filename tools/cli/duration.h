// A time on the command line.
//
// Threading: pure functions.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace slipstream::cli {

// A hundred days.
inline constexpr double kMostSeconds = 8.64e6;

// "90", "1.5", "90s", "10m", "2h", "7d", "250ms", "1h30m": numbers with their units, the largest first, or one number
// of seconds. Seconds, more than 0 and at most kMostSeconds. Nothing: it is written in any other way.
inline std::optional<double> ParseDuration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr Unit kUnits[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};
  double all = 0;
  double last = INFINITY;  // seconds of the unit before
  while (!text.empty()) {
    if (text.front() < '0' || text.front() > '9') return std::nullopt;
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
    text.remove_prefix(name.size());
    double seconds = 0;
    for (const Unit& unit : kUnits) seconds = unit.name == name ? unit.seconds : seconds;
    if (name.empty() && last == INFINITY) seconds = 1;
    if (seconds <= 0 || seconds >= last) return std::nullopt;
    all += number * seconds;
    last = seconds;
  }
  return all > 0 && all <= kMostSeconds ? std::optional(all) : std::nullopt;
}

}  // namespace slipstream::cli
