#include "tools/text/page.h"

#include <algorithm>
#include <cctype>

namespace slipstream::text {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kReset = "\x1b[0m";

// Calls `change` with each line, without its end, and puts what it returns in its place.
template <typename Change>
std::string EachLine(const std::string& lines, const Change& change) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text += change(std::string_view(lines).substr(at, end - at)) + (end < lines.size() ? "\n" : "");
    at = end + 1;
  }
  return text;
}

std::string In(std::string_view color, std::string_view text) {
  return std::string(color) + std::string(text) + std::string(kReset);
}

bool IsInCapitals(std::string_view word) {
  const auto is = [](int (*kind)(int)) { return [kind](unsigned char letter) { return kind(letter) != 0; }; };
  return std::any_of(word.begin(), word.end(), is(std::isupper)) &&
         std::none_of(word.begin(), word.end(), is(std::islower));
}

size_t HeadingOf(std::string_view line) {
  size_t heading = 0;
  for (size_t at = 0; at < line.size() && line[at] != ' ';) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (!IsInCapitals(word)) break;
    heading = end;
    if (word.ends_with(':')) break;
    at = end + 1;
  }
  return heading;
}

}  // namespace

std::string Bold(const std::string& lines, const Page& page) {
  return !page.color ? lines : EachLine(lines, [](std::string_view line) { return In(kBold, line); });
}

std::string Code(const std::string& lines, const Page& page) {
  return !page.color ? lines : EachLine(lines, [](std::string_view line) { return In(kCyan, line); });
}

std::string BoldHeadings(const std::string& lines, const Page& page) {
  if (!page.color) return lines;
  return EachLine(lines, [](std::string_view line) {
    const size_t heading = HeadingOf(line);
    return heading == 0 ? std::string(line) : In(kBold, line.substr(0, heading)) + std::string(line.substr(heading));
  });
}

}  // namespace slipstream::text
