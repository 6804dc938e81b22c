#include "tools/trace/top/words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "policy/text.h"
#include "tools/text/text.h"

namespace slipstream::top {

using policy::Escape;
using text::HumanBytes;
using text::WithThousands;

namespace {

// Of the character that `text` begins with; a byte that begins none is one.
size_t BytesOfFirst(std::string_view text) { return std::max<size_t>(1, policy::Utf8CharacterLength(text)); }

// Characters that terminals draw twice as wide (Unicode Standard Annex 11: wide and fullwidth), in large ranges: what
// is too narrow for its place does no harm.
size_t ColumnsOf(std::string_view character) {
  uint32_t code = static_cast<unsigned char>(character[0]);
  if (character.size() > 1) code &= 0xFFU >> (character.size() + 1);
  for (const char byte : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
  constexpr std::array<std::array<uint32_t, 2>, 10> kWide = {{{0x1100, 0x115F},
                                                              {0x231A, 0x231B},
                                                              {0x2E80, 0xA4CF},
                                                              {0xA960, 0xA97F},
                                                              {0xAC00, 0xD7A3},
                                                              {0xF900, 0xFAFF},
                                                              {0xFE30, 0xFE6F},
                                                              {0xFF00, 0xFF60},
                                                              {0x1F300, 0x1FAFF},
                                                              {0x20000, 0x3FFFD}}};
  const bool wide = std::any_of(kWide.begin(), kWide.end(),
                                [code](const auto& range) { return code >= range[0] && code <= range[1]; });
  return wide ? 2 : 1;
}

}  // namespace

size_t Columns(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const size_t bytes = BytesOfFirst(text);
    columns += ColumnsOf(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return columns;
}

std::string Three(double value) {
  if (!(value > 0)) return "0";
  if (value >= 999.5) return WithThousands(static_cast<uint64_t>(std::llround(std::min(value, 1e18))));
  char text[32];
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string PerSecond(uint64_t count, double seconds) { return Three(static_cast<double>(count) / seconds); }
std::string BytesPerSecond(uint64_t bytes, double seconds) {
  return HumanBytes(static_cast<uint64_t>(static_cast<double>(bytes) / seconds));
}
std::string Percent(double share) {
  if (std::fabs(share) < 0.0005) return "0.0 %";
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f %%", std::fabs(share) >= 0.9995 ? 0 : 1, share * 100);
  return text;
}
double Share(uint64_t ns, double seconds) { return static_cast<double>(ns) / 1e9 / seconds; }

double BusiestShare(const ProcessView& process) {
  double busy = kUnknown;
  if (!process.trace) return busy;
  for (const DeviceView& device : process.trace->devices) busy = std::max(busy, device.busy);
  return busy;
}

std::string Duration(uint64_t ns) {
  const uint64_t seconds = ns / 1'000'000'000;
  char text[64];
  if (seconds >= 3600) {
    std::snprintf(text, sizeof(text), "%llu h %02llu min", static_cast<unsigned long long>(seconds / 3600),
                  static_cast<unsigned long long>(seconds / 60 % 60));
  } else if (seconds >= 60) {
    std::snprintf(text, sizeof(text), "%llu min %02llu s", static_cast<unsigned long long>(seconds / 60),
                  static_cast<unsigned long long>(seconds % 60));
  } else {
    std::snprintf(text, sizeof(text), "%llu s", static_cast<unsigned long long>(seconds));
  }
  return text;
}

std::string ShortDuration(uint64_t ns) {
  const uint64_t seconds = ns / 1'000'000'000;
  const auto text = [](uint64_t large, const char* unit, uint64_t small, const char* part) {
    return std::to_string(large) + unit + (small < 10 ? "0" : "") + std::to_string(small) + part;
  };
  if (seconds >= 86400) return text(seconds / 86400, "d", seconds / 3600 % 24, "h");
  if (seconds >= 3600) return text(seconds / 3600, "h", seconds / 60 % 60, "m");
  if (seconds >= 60) return text(seconds / 60, "m", seconds % 60, "s");
  return std::to_string(seconds) + "s";
}

std::string ShortBytes(uint64_t bytes) {
  const std::string text = HumanBytes(bytes);
  const size_t space = text.find(' ');
  const std::string unit = text.substr(space + 1, 1);
  return text.substr(0, space) + unit;
}

std::string ClockTime(uint64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm local{};
  char text[16];
  if (localtime_r(&seconds, &local) == nullptr || std::strftime(text, sizeof(text), "%H:%M:%S", &local) == 0) return "";
  return text;
}

std::string CutTo(const std::string& text, size_t columns) {
  if (Columns(text) <= columns) return text;
  const size_t wanted = columns > 3 ? columns - 3 : columns;
  size_t bytes = 0;
  for (size_t taken = 0; bytes < text.size();) {
    const std::string_view left = std::string_view(text).substr(bytes);
    const std::string_view first = left.substr(0, BytesOfFirst(left));
    taken += ColumnsOf(first);
    if (taken > wanted) break;
    bytes += first.size();
  }
  return text.substr(0, bytes) + (columns > 3 ? "..." : "");
}

std::string PadTo(const std::string& text, size_t columns) {
  const size_t used = Columns(text);
  return used >= columns ? text : text + std::string(columns - used, ' ');
}

std::string NameOf(const ProcessView& process) {
  std::string name = process.executable.empty() ? "" : Escape(process.executable) + " ";
  name += "(pid " + std::to_string(process.pid);
  if (process.rank >= 0) name += ", rank " + std::to_string(process.rank);
  if (!process.host.empty()) name += ", " + Escape(process.host);
  return name + ")";
}

std::string LineLabel(const LineView& line, size_t columns) {
  if (line.file.empty()) return "no line known";
  const std::string place = ":" + std::to_string(line.line) + (line.function.empty() ? "" : " (" + line.function + ")");
  std::string whole = Escape(line.file + place);
  if (Columns(whole) <= columns) return whole;
  return CutTo(Escape(line.file.substr(line.file.rfind('/') + 1) + place), columns);
}

std::string Trend(const std::vector<uint64_t>& times_ns, bool utf8) {
  constexpr std::array<const char*, 8> kBlocks = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                  "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr std::array<const char*, 8> kPlain = {"_", ".", ",", "-", "=", "+", "*", "#"};
  if (times_ns.empty()) return "";
  std::vector<uint64_t> sorted = times_ns;
  std::sort(sorted.begin(), sorted.end());
  const double median = std::max(1.0, static_cast<double>(sorted[sorted.size() / 2]));
  std::string text;
  for (const uint64_t time : times_ns) {
    const double level = std::clamp((static_cast<double>(time) / median - 0.5) * 7, 0.0, 7.0);
    text += (utf8 ? kBlocks : kPlain).at(static_cast<size_t>(std::llround(level)));
  }
  return text;
}

std::string CommandLabel(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  const auto base = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  std::vector<std::string> shown = {base(words[0])};
  size_t next = 1;
  if (shown[0].starts_with("python")) {
    // Options of Python stand before what it runs; these have a value of their own.
    size_t at = 1;
    while (at < words.size() && words[at].size() > 1 && words[at][0] == '-' && words[at] != "-m" && words[at] != "-c") {
      at += words[at] == "-X" || words[at] == "-W" ? 2 : 1;
    }
    if (at < words.size() && words[at] == "-m" && at + 1 < words.size()) {
      shown = {words[at + 1]};
      next = at + 2;
    } else if (at < words.size() && !words[at].empty() && words[at][0] != '-') {
      shown = {base(words[at])};
      next = at + 1;
    }
  }
  shown.insert(shown.end(), words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  std::string text;
  for (const std::string& word : shown) text += (text.empty() ? "" : " ") + word;
  return text;
}

void FitTo(std::vector<Line>* lines, size_t columns) {
  for (Line& line : *lines) {
    size_t left = columns;
    for (Span& span : line) {
      span.text = CutTo(span.text, left);
      left -= std::min(left, Columns(span.text));
    }
    std::erase_if(line, [](const Span& span) { return span.text.empty(); });
  }
}

}  // namespace slipstream::top
