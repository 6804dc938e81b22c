// Finds where the statements of a TOML text begin and end, without parsing them.
//
// Purpose: the parser stops at the first error. We then put the whole statement aside, parse again, and report all
//   mistakes at once. And a text can be refused before it nests too deeply.
// Threading: pure functions.

#pragma once

#include <string_view>
#include <vector>

namespace slipstream::policy {

struct Statement {
  // Bytes [begin, end) of the text, with the newline. A blank or comment line is a statement of its own.
  std::size_t begin = 0;
  std::size_t end = 0;
  // From 1. A statement has several lines where a string or an array does.
  int first_line = 1;
  int last_line = 1;
  // Begins with '[': a table's header.
  bool header = false;
};

struct Outline {
  std::vector<Statement> statements;
  // Dots outside of strings and comments: no text can nest tables deeper than this.
  std::size_t dots = 0;
};

Outline OutlineOf(std::string_view text);

}  // namespace slipstream::policy
