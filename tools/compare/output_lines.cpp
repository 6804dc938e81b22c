#include "tools/compare/output_lines.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace slipstream::compare {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWord(char c) { return IsDigit(c) || IsLetter(c); }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return lower;
}

template <size_t kCount>
bool IsOneOf(std::string_view word, const std::array<std::string_view, kCount>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Of times, rates, memory, power and clocks.
constexpr std::array<std::string_view, 49> kUnits = {
    "s",     "sec",   "secs",   "second",  "seconds", "ms",  "msec",  "us",     "usec",   "ns",
    "min",   "mins",  "minute", "minutes", "h",       "hr",  "hrs",   "hour",   "hours",  "b",
    "kb",    "mb",    "gb",     "tb",      "kib",     "mib", "gib",   "tib",    "byte",   "bytes",
    "fps",   "ips",   "hz",     "khz",     "mhz",     "ghz", "flops", "gflops", "tflops", "flop",
    "gflop", "tflop", "w",      "watt",    "watts",   "kw",  "j",     "joule",  "joules"};
// Words in front that hold one of these say that a measurement follows.
constexpr std::array<std::string_view, 15> kMeasuredWords = {"time",  "took",     "elapsed", "duration", "second",
                                                             "speed", "throughp", "latency", "fps",      "eta",
                                                             "per_s", "memory",   "alloc",   "pid",      "uptime"};
// As a whole.
constexpr std::array<std::string_view, 9> kMeasuredNames = {"s", "sec", "secs", "ms", "us", "ns", "mem", "ips", "port"};

std::string_view WordAt(std::string_view line, size_t at) {
  size_t end = at;
  while (end < line.size() && IsLetter(line[end])) ++end;
  return line.substr(at, end - at);
}

// Whether what follows a number is a unit of a measurement.
bool HasUnit(std::string_view line, size_t after) {
  if (after < line.size() && IsBlank(line[after])) ++after;
  if (line.substr(after).starts_with("\xc2\xb5s") || line.substr(after).starts_with("\xce\xbcs")) return true;
  const std::string word = Lower(WordAt(line, after));
  const std::string_view rest = line.substr(after + word.size());
  if (rest.starts_with("/s") || rest.starts_with("/min") || Lower(rest.substr(0, 12)).starts_with(" per second")) {
    return true;
  }
  return IsOneOf(word, kUnits);
}

// Whether the word in front of a number says that it is one: "time: 3", "elapsed (s) = 3", "\"step_ms\": 3".
bool HasMeasuredName(std::string_view line, size_t begin) {
  constexpr std::string_view kBetween = " \t:=\"'()[]{}~<>";
  size_t end = begin;
  while (end > 0 && kBetween.find(line[end - 1]) != std::string_view::npos) --end;
  size_t start = end;
  while (start > 0 && (IsWord(line[start - 1]) || line[start - 1] == '/')) --start;
  const std::string word = Lower(line.substr(start, end - start));
  if (IsOneOf(word, kMeasuredNames) || word.ends_with("_ms") || word.ends_with("_us") || word.ends_with("_ns") ||
      word.ends_with("/s") || word.ends_with("/sec")) {
    return true;
  }
  if (std::any_of(kMeasuredWords.begin(), kMeasuredWords.end(), [&](std::string_view part) {
        // "beta" is a result, and holds "eta".
        return part == "eta" || part == "pid" ? word == part : word.find(part) != std::string::npos;
      })) {
    return true;
  }
  return false;
}

// The length of "12:03", "12:03:55.2", "2026-11-23", "2026/11/23", "2026-11-23T12:03:55", or 0.
size_t ClockLength(std::string_view text) {
  const auto digits = [&](size_t at) {
    size_t count = 0;
    while (at + count < text.size() && IsDigit(text[at + count])) ++count;
    return count;
  };
  const size_t first = digits(0);
  if (first == 4 && text.size() >= 10 && (text[4] == '-' || text[4] == '/') && digits(5) == 2 && text[7] == text[4] &&
      digits(8) == 2) {
    // ISO 8601 puts a T between; with a blank there are two.
    const size_t time = text.size() > 11 && text[10] == 'T' ? ClockLength(text.substr(11)) : 0;
    return time == 0 ? 10 : 11 + time;
  }
  if (first == 0 || first > 3) return 0;
  size_t length = first;
  size_t parts = 1;
  while (parts < 3 && length < text.size() && text[length] == ':' && digits(length + 1) == 2) {
    length += 3;
    ++parts;
  }
  if (parts == 1) return 0;
  if (length + 1 < text.size() && (text[length] == '.' || text[length] == ',') && digits(length + 1) > 0) {
    length += 1 + digits(length + 1);
  }
  return length;
}

// The length of a decimal number, 0 where there is none.
size_t NumberLength(std::string_view text) {
  size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const size_t sign = at;
  const bool may_be_word = at < text.size() && std::string_view("nNiI").find(text[at]) != std::string_view::npos;
  for (const std::string_view word : {"nan", "inf", "infinity"}) {
    if (!may_be_word) break;
    if (Lower(text.substr(at, word.size())) == word &&
        (at + word.size() == text.size() || !IsWord(text[at + word.size()]))) {
      return at + word.size();
    }
  }
  while (at < text.size() && IsDigit(text[at])) ++at;
  if (at == sign) return 0;
  // Thousands: "1,234,567"
  while (at + 3 < text.size() && text[at] == ',' && IsDigit(text[at + 1]) && IsDigit(text[at + 2]) &&
         IsDigit(text[at + 3]) && (at + 4 == text.size() || !IsDigit(text[at + 4]))) {
    at += 4;
  }
  if (at < text.size() && text[at] == '.') {
    size_t more = at + 1;
    while (more < text.size() && IsDigit(text[more])) ++more;
    if (more > at + 1) at = more;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t more = at + 1;
    if (more < text.size() && (text[more] == '-' || text[more] == '+')) ++more;
    const size_t first = more;
    while (more < text.size() && IsDigit(text[more])) ++more;
    if (more > first) at = more;
  }
  return at;
}

// The length of a word of eight or more hexadecimal digits, letters among them, or 0.
size_t HashLength(std::string_view text) {
  size_t length = 0;
  bool has_letter = false;
  bool has_digit = false;
  while (length < text.size() && IsWord(text[length])) {
    const char c = text[length];
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return 0;
    (IsDigit(c) ? has_digit : has_letter) = true;
    ++length;
  }
  return length >= 8 && has_letter && has_digit ? length : 0;
}

}  // namespace

bool LineParts::has_results() const {
  return std::any_of(numbers.begin(), numbers.end(), [](const NumberField& number) { return !number.measured; });
}

LineParts PartsOf(std::string_view line) {
  LineParts parts;
  size_t at = 0;
  while (at < line.size()) {
    const bool begins = at == 0 || !IsWord(line[at - 1]);
    // "cuda:0": what a colon ties to a word is part of its name. "a-1" has no sign.
    const bool tied = at >= 2 && line[at - 1] == ':' && IsWord(line[at - 2]);
    const std::string_view rest = line.substr(at);
    size_t length = 0;
    bool measured = false;
    if (begins && rest.starts_with("0x")) {
      length = 2;
      while (length < rest.size() && IsWord(rest[length])) ++length;
      measured = true;  // an address
    } else if (begins && (length = HashLength(rest)) != 0) {
    } else if (begins && (length = ClockLength(rest)) != 0) {
      measured = true;
    } else if (begins && !tied) {
      length = NumberLength(rest);
      measured = length != 0 && (HasUnit(line, at + length) || HasMeasuredName(line, at));
    }
    if (length != 0) {
      parts.skeleton += '#';
      parts.numbers.push_back({.text = std::string(rest.substr(0, length)), .measured = measured});
      at += length;
    } else if (IsBlank(line[at])) {
      if (!parts.skeleton.empty() && parts.skeleton.back() != ' ') parts.skeleton += ' ';
      ++at;
    } else {
      // Numbers never touch: a '#' of the program's own cannot pass for one.
      if (line[at] == '#') parts.skeleton += '#';
      parts.skeleton += line[at++];
    }
  }
  while (parts.skeleton.ends_with(' ')) parts.skeleton.pop_back();
  return parts;
}

}  // namespace slipstream::compare
