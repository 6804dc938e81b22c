// A View as lines of text with styles: what the terminal shows and what is printed are the same lines.
//
// Whatever comes from a program (names of files, functions, programs) is made fit for a terminal here.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/top/view.h"

namespace slipstream::top {

enum class Style : uint8_t {
  kPlain,
  kDim,  // what is not known, and what explains
  kHeading,
  kFigure,  // what one looks for first
  kGood,
  kWarning,
  kSelected,  // the row that the keys move
};

struct Span {
  std::string text;
  Style style = Style::kPlain;
};
using Line = std::vector<Span>;

enum class SortBy : uint8_t { kRank, kStep, kWaiting, kCalls };
inline constexpr size_t kSorts = 4;
const char* SortName(SortBy sort);

// How it is looked at.
struct Picture {
  size_t columns = 80;
  size_t rows = 24;     // 0: as many as there are
  bool keys = false;    // somebody can press them: a last line says which
  size_t selected = 0;  // of Order()
  bool only_selected = false;
  bool list = false;      // all processes, a row each, and no figures of one of them
  bool has_list = false;  // there is such a list to go back to
  bool paused = false;
  bool help = false;
  bool utf8 = false;  // the terminal shows more than ASCII
  SortBy sort = SortBy::kRank;
};

// The processes as the table has them: indices into view.processes.
std::vector<size_t> Order(const View& view, SortBy sort);

// No line is wider than the picture, and there are no more of them than it has rows.
std::vector<Line> Draw(const View& view, const Picture& picture);

// Without styles; each line ends with a newline.
std::string PlainText(const std::vector<Line>& lines);

// That a terminal needs for UTF-8.
size_t Columns(std::string_view text);

}  // namespace slipstream::top
