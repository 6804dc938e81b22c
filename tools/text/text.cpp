#include "tools/text/text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "policy/text.h"
#include "tools/text/columns.h"
#include "tracer/base/python_lines.h"

namespace slipstream::text {
namespace {

// `value` to three significant digits, followed by `unit`.
std::string ThreeDigits(double value, const char* unit) {
  char buffer[64];
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(buffer, sizeof(buffer), "%.*f %s", decimals, value, unit);
  return buffer;
}

template <size_t kUnits>
std::string Scaled(uint64_t number, double step, const std::array<const char*, kUnits>& units) {
  if (static_cast<double>(number) < step) return std::to_string(number) + " " + units[0];
  auto value = static_cast<double>(number);
  size_t unit = 0;
  // 999.6 would print as "1000": move on to the next unit first.
  while (unit + 1 < kUnits && value >= step - step / 2000) {
    value /= step;
    ++unit;
  }
  return ThreeDigits(value, units[unit]);
}

}  // namespace

std::string WithThousands(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string HumanBytes(uint64_t bytes) { return Scaled<6>(bytes, 1024.0, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}); }

std::string HumanTime(uint64_t ns) { return Scaled<4>(ns, 1000.0, {"ns", "us", "ms", "s"}); }

std::string AboutTime(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 90) return std::to_string(whole) + " s";
  const uint64_t minutes = (whole + 30) / 60;
  return minutes < 90 ? std::to_string(minutes) + " min"
                      : std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string PadLeft(const std::string& text, size_t width) {
  const size_t columns = Columns(text);
  return std::string(columns >= width ? 0 : width - columns, ' ') + text;
}

std::string PadRight(const std::string& text, size_t width) {
  const size_t columns = Columns(text);
  return text + std::string(columns >= width ? 0 : width - columns, ' ');
}

std::string PythonLinesText(std::string_view fact) {
  const auto behind = [fact](std::string_view word) { return std::string(fact.substr(word.size())); };
  if (fact.starts_with(tracer::kLinesRead)) return "read, from " + behind(tracer::kLinesRead);
  if (fact.starts_with(tracer::kLinesUnsupported)) {
    return "none, " + behind(tracer::kLinesUnsupported) + " (not supported)";
  }
  if (fact.starts_with(tracer::kLinesNone)) return "none, " + behind(tracer::kLinesNone);
  return std::string(fact);
}

std::string ForTerminal(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    text += policy::Escape(lines.substr(0, end));
    if (end == std::string_view::npos) break;
    text += '\n';
    lines.remove_prefix(end + 1);
  }
  return text;
}

}  // namespace slipstream::text
