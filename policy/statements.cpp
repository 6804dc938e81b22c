#include "policy/statements.h"

#include <algorithm>

namespace slipstream::policy {
namespace {

// The position behind the string that begins at `at` with a quote. An unterminated one ends with its line, or, in three
// quotes, with the text.
std::size_t EndOfString(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool escapes = quote == '"';
  const bool block = text.substr(at, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''");
  for (at += block ? 3 : 1; at < text.size(); ++at) {
    if (text[at] == '\\' && escapes) {
      ++at;
    } else if (text[at] == '\n' && !block) {
      return at;
    } else if (text[at] == quote) {
      if (!block) return at + 1;
      if (text.substr(at).starts_with(std::string_view(quote == '"' ? "\"\"\"" : "'''"))) {
        // Up to two quotes may stand before the closing three.
        at += 3;
        for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
        return at;
      }
    }
  }
  return text.size();
}

}  // namespace

Outline OutlineOf(std::string_view text) {
  Outline outline;
  int line = 1;
  std::size_t at = 0;
  while (at < text.size()) {
    Statement statement;
    statement.begin = at;
    statement.first_line = line;
    const std::size_t first = text.find_first_not_of(" \t", at);
    statement.header = first != std::string_view::npos && text[first] == '[';
    // An array may go over several lines. Inline tables may not, so braces do not count.
    std::size_t brackets = 0;
    bool done = false;
    while (!done && at < text.size()) {
      const std::size_t from = at;
      switch (text[at]) {
        case '\n':
          done = brackets == 0;
          ++at;
          break;
        case '#':
          at = std::min(text.find('\n', at), text.size());
          break;
        case '"':
        case '\'':
          at = EndOfString(text, at);
          break;
        case '[':
          if (!statement.header) ++brackets;
          ++at;
          break;
        case ']':
          if (brackets > 0) --brackets;
          ++at;
          break;
        case '.':
          ++outline.dots;
          ++at;
          break;
        default:
          ++at;
      }
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                                          text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    }
    statement.end = at;
    statement.last_line = text[at - 1] == '\n' ? line - 1 : line;
    outline.statements.push_back(statement);
  }
  return outline;
}

}  // namespace slipstream::policy
