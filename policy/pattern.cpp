#include "policy/pattern.h"

#include <cstddef>

namespace slipstream::policy {
namespace {

unsigned char Byte(char c) { return static_cast<unsigned char>(c); }

// What one element of a pattern makes of one byte.
struct Step {
  bool matches;
  std::size_t length;  // of the element, in the pattern
};

// The byte at `*at`, which a backslash may stand before; false at the end of the pattern.
bool TakeByte(std::string_view pattern, std::size_t* at, char* taken) {
  if (*at < pattern.size() && pattern[*at] == '\\') ++*at;
  if (*at >= pattern.size()) return false;
  *taken = pattern[(*at)++];
  return true;
}

// Of a pattern that begins with '['.
Step MatchBracket(std::string_view pattern, char byte) {
  const Step literal = {byte == '[', 1};
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) return {found != negated, at + 1};
    char low = 0;
    if (!TakeByte(pattern, &at, &low)) return literal;
    char high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      if (!TakeByte(pattern, &at, &high)) return literal;
    }
    if (Byte(low) <= Byte(byte) && Byte(byte) <= Byte(high)) found = true;
  }
  return literal;
}

Step MatchOne(std::string_view pattern, char byte) {
  switch (pattern.front()) {
    case '?':
      return {true, 1};
    case '[':
      return MatchBracket(pattern, byte);
    case '\\':
      if (pattern.size() == 1) return {false, 1};
      return {pattern[1] == byte, 2};
    default:
      return {pattern.front() == byte, 1};
  }
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view text) noexcept {
  std::size_t in_pattern = 0;
  std::size_t in_text = 0;
  // Behind the last '*', and the text that the rest was last tried on: an earlier '*' need not be asked again.
  std::size_t behind_star = std::string_view::npos;
  std::size_t tried = 0;
  while (in_text < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      behind_star = ++in_pattern;
      tried = in_text;
      continue;
    }
    if (in_pattern < pattern.size()) {
      const Step step = MatchOne(pattern.substr(in_pattern), text[in_text]);
      if (step.matches) {
        in_pattern += step.length;
        ++in_text;
        continue;
      }
    }
    if (behind_star == std::string_view::npos) return false;
    in_pattern = behind_star;
    in_text = ++tried;
  }
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern.size();
}

}  // namespace slipstream::policy
