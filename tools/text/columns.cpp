#include "tools/text/columns.h"

#include <algorithm>
#include <array>

#include "policy/number.h"
#include "policy/text.h"

namespace slipstream::text {
namespace {

constexpr std::string_view kDots = "...";
// A line has room for this much, however far it is indented.
constexpr size_t kLeastRoom = 8;

size_t FirstCharacter(std::string_view text) { return std::max<size_t>(1, policy::Utf8CharacterLength(text)); }

// Bytes of the longest beginning that takes at most `columns`.
size_t BytesOf(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (; columns > 0 && bytes < text.size(); --columns) bytes += FirstCharacter(text.substr(bytes));
  return std::min(bytes, text.size());
}

std::string_view LastColumns(std::string_view text, size_t columns) {
  const size_t all = Columns(text);
  return text.substr(BytesOf(text, all - std::min(all, columns)));
}

// Whether the space at `at` is between a figure and its unit.
bool IsBeforeUnit(std::string_view text, size_t at) {
  constexpr std::array<std::string_view, 12> kUnits = {"ns",  "us",  "ms",  "s",   "%", "x",
                                                       "KiB", "MiB", "GiB", "TiB", "B", "steps"};
  if (at == 0 || text[at - 1] < '0' || text[at - 1] > '9') return false;
  std::string_view word = text.substr(at + 1);
  word = word.substr(0, word.find(' '));
  word = word.substr(0, word.find_last_not_of(".,;:)") + 1);
  return std::find(kUnits.begin(), kUnits.end(), word) != kUnits.end();
}

// Where a line ends that may have so many bytes and does not hold all of `text`.
size_t EndOfLine(std::string_view text, size_t fits) {
  const size_t last = text.rfind(' ', fits);
  if (last == std::string_view::npos || last == 0) return fits;
  for (size_t space = last; space != std::string_view::npos && space != 0; space = text.rfind(' ', space - 1)) {
    if (!IsBeforeUnit(text, space)) return space;
  }
  return last;
}

}  // namespace

size_t ColumnsFor(const char* asked, size_t terminal) {
  const auto number = policy::NumberIn<size_t>(asked == nullptr ? "" : asked);
  return std::clamp(number.value_or(terminal), kLeastColumns, kMostColumns);
}

size_t Columns(std::string_view text) {
  size_t columns = 0;
  for (; !text.empty(); ++columns) text.remove_prefix(std::min(text.size(), FirstCharacter(text)));
  return columns;
}

std::string Cut(std::string_view text, size_t columns) {
  if (Columns(text) <= columns) return std::string(text);
  return std::string(text.substr(0, BytesOf(text, columns - kDots.size()))) + std::string(kDots);
}

std::string CutFront(std::string_view text, size_t columns) {
  if (Columns(text) <= columns) return std::string(text);
  return std::string(kDots) + std::string(LastColumns(text, columns - kDots.size()));
}

std::string CutMiddle(std::string_view text, size_t columns) {
  if (Columns(text) <= columns) return std::string(text);
  const size_t front = (columns - kDots.size()) / 2;
  return std::string(text.substr(0, BytesOf(text, front))) + std::string(kDots) +
         std::string(LastColumns(text, columns - kDots.size() - front));
}

std::string Wrapped(std::string_view text, size_t columns, size_t indent, size_t hanging) {
  const size_t in_front = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(in_front);
  std::string lines;
  for (std::string margin(indent + in_front, ' ');; margin.assign(hanging, ' ')) {
    const size_t room = columns > margin.size() + kLeastRoom ? columns - margin.size() : kLeastRoom;
    const size_t fits = BytesOf(text, room);
    if (fits == text.size()) return lines + margin + std::string(text) + "\n";
    const size_t end = EndOfLine(text, fits);
    lines += margin + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
}

std::string WrappedAtSpaces(std::string_view lines, size_t columns, size_t hanging) {
  std::string text;
  while (!lines.empty()) {
    std::string_view rest = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), rest.size() + 1));
    std::string line(rest.substr(0, std::min(rest.find_first_not_of(' '), rest.size())));
    rest.remove_prefix(line.size());
    bool has_word = false;
    while (!rest.empty()) {
      // With the spaces in front of it, which line up what stands in columns.
      const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
      if (begin == rest.size()) break;
      const std::string_view word = rest.substr(0, std::min(rest.find(' ', begin), rest.size()));
      rest.remove_prefix(word.size());
      if (has_word && Columns(line) + Columns(word) > columns) {
        text += line + "\n";
        line = std::string(hanging, ' ') + std::string(word.substr(begin));
      } else {
        line += word;
      }
      has_word = true;
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace slipstream::text
