#include "tools/text/columns.h"

#include <algorithm>

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
    const size_t space = text.rfind(' ', fits);
    const size_t end = space == std::string_view::npos || space == 0 ? fits : space;
    lines += margin + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
}

}  // namespace slipstream::text
