// Texts for a screen that is so many columns wide. A character of UTF-8 is one column here.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slipstream::text {

// What a text has where nobody says how wide it may be, and the most that one is made for.
inline constexpr size_t kLeastColumns = 80;
inline constexpr size_t kMostColumns = 160;

// How wide a text may be, within the two: as the variable COLUMNS says (null: it is not set), else as wide as the
// terminal (0: there is none).
size_t ColumnsFor(const char* asked, size_t terminal);

size_t Columns(std::string_view text);

// Of at most `columns` columns (at least 3), with "..." where something is left out: at the end, at the front, or a
// little before the middle, so that both ends can be read.
std::string Cut(std::string_view text, size_t columns);
std::string CutFront(std::string_view text, size_t columns);
std::string CutMiddle(std::string_view text, size_t columns);

// Lines of at most `columns`, each with its end, that break at spaces: the first behind `indent` spaces and those that
// the text has in front, the others behind `hanging`. A figure keeps its unit. A word that is longer than a line is
// broken where that ends.
std::string Wrapped(std::string_view text, size_t columns, size_t indent, size_t hanging);

// Each line of the text, ended by a newline, on lines of at most `columns` that break at spaces, the others behind
// `hanging`. A word that is longer than a line stays whole: it may be a path that is to be pasted.
std::string WrappedAtSpaces(std::string_view lines, size_t columns, size_t hanging);

}  // namespace slipstream::text
