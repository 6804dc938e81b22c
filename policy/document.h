// A TOML text as a flat list of the values that it sets, with positions. Knows nothing of policies.
//
// Purpose: keeps toml++, whose header is slow to compile, in one file.
// Threading: no state.
// Errors: all mistakes in the text itself are in `problems`, up to a limit. Out of memory throws.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "policy/problem.h"
#include "policy/value.h"

namespace slipstream::policy {

struct Entry {
  enum class Kind { kBool, kInteger, kString, kFloat, kDate, kArray, kTexts, kTableArray, kTable, kEmptyTable };

  // {"log", "level"}
  std::vector<std::string> path;
  Kind kind = Kind::kTable;
  // For the first three kinds, and of kTexts, an array of text and nothing else, its list.
  Value value;
  // From 1, in characters.
  int key_line = 1;
  int key_column = 1;
  int line = 1;
  int column = 1;
  // For an entry in an array of tables: how many parts of `path` name the array, and which of its tables this is or is
  // in, from 1. 0: in none. Arrays of tables inside such a table are not read.
  std::size_t array_parts = 0;
  std::size_t element = 0;

  // "log.level"; a part that would need quotes in TOML has them.
  std::string Key() const;
  // What stands there, for a message: "\"off\"", "3", "an array".
  std::string Found() const;
};

struct Document {
  // Tables too, before what they hold; in the order of the text.
  std::vector<Entry> entries;
  std::vector<Problem> problems;
  // false: too many mistakes to read on, and `entries` is empty.
  bool complete = true;
};

// `text` is UTF-8 (a byte order mark is skipped). Statements with an error are left out.
Document ParseDocument(std::string_view text);

}  // namespace slipstream::policy
