// A number that the program prints about itself, such as "106.8 samples/s".
//
// Patterns are ECMAScript's (std::regex), looked for in each line. Lines longer than kLongestLine are not searched: the
// library's matcher recurses once for every character.
//
// Threading: an object is constant once made.
// Errors: as text in what is returned.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/compare/ratio.h"

namespace slipstream::compare {

inline constexpr size_t kLongestLine = 8192;

// The lines of a text as a terminal leaves them: of what a carriage return writes over, the last.
std::vector<std::string_view> LinesOf(std::string_view text);

class Pattern {
 public:
  // `groups`: how many it may have, from 0 or 1.
  Pattern(const std::string& text, size_t least_groups, size_t most_groups);
  // Why it cannot be used; empty: it can.
  const std::string& error() const { return error_; }

  // What the group matched, or all of it where there is none, of every match in order.
  std::vector<std::string> FindAll(std::string_view text) const;
  // The text with all that replaced by `mark`.
  std::string Without(std::string_view text, std::string_view mark) const;

 private:
  struct Compiled;  // a std::regex, whose header is slow to compile

  std::shared_ptr<const Compiled> compiled_;
  int group_ = 0;
  std::string error_;
};

enum class Pick { kLast, kMedian, kMean };

struct MetricFigure {
  Figure figure;
  size_t matches = 0;
  std::string problem;  // empty: there is a figure
};

// Commas between digits are taken for thousands.
MetricFigure ReadMetric(const Pattern& pattern, Pick pick, std::string_view output);

}  // namespace slipstream::compare
