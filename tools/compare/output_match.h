// Whether two sides print the same results, from what several runs of each printed.
//
// A number that is the same in every run of the first side is one that the program determines; if the second side says
// something else, the results differ. A number that varies within the first side says nothing. Lines are found again by
// their words and by how many of the same words came before, so that a line more or less elsewhere does no harm.
//
// Threading: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/compare/metric.h"
#include "tools/compare/output_lines.h"

namespace slipstream::compare {

// How much of a stream of one run is compared; the output says if the rest is left out.
inline constexpr size_t kMostOutput = size_t{2} << 20;
inline constexpr size_t kMostDifferences = 5;  // that are kept

struct OutputDifference {
  bool standard_error = false;
  size_t line = 0;       // of the first side's first run, from 1; of --result: the number of the result
  std::string first;     // what the first side says, in all its runs
  std::string second{};  // what the second side says; empty: it prints no such line
  size_t runs = 0;       // of the second side, that say something else
};

struct MatchResult {
  std::array<size_t, 2> runs{};
  // Numbers that may be results, of the first side's first run; for --result, what it finds.
  size_t numbers = 0;
  size_t repeating = 0;    // of those, the same in all its runs
  size_t words = 0;        // lines without such numbers that all its runs print (standard output alone)
  size_t differences = 0;  // lines
  std::vector<OutputDifference> shown;
  std::string example;      // a line with a number that repeats and agrees
  std::string varying;      // one with a number that does not repeat
  bool cut = false;         // there was more output than is compared
  bool by_pattern = false;  // --result has named the results
  // Something repeats, in two runs of the first side or more, and there is a run of the second.
  bool can_be_told() const { return runs[0] >= 2 && runs[1] >= 1 && repeating > 0; }
};

class OutputMatch {
 public:
  // `result`: only what it finds is compared. `metric`: what it finds is not. May be null; must live.
  OutputMatch(const Pattern* result, const Pattern* metric) : result_(result), metric_(metric) {}

  // What one run of a side (0 or 1) printed.
  void Add(size_t side, std::string_view output, std::string_view errors);
  MatchResult Result() const;

 private:
  struct Line {
    size_t number = 0;
    std::string text;
    std::vector<NumberField> numbers;
  };
  // By the words of the line and its number among those with the same words.
  using Lines = std::unordered_map<std::string, Line>;
  // Standard output and standard error.
  using Run = std::array<Lines, 2>;

  static Lines Parse(std::string_view text);
  Lines Captured(std::string_view text) const;
  void Compare(size_t stream, MatchResult* result) const;

  const Pattern* const result_;
  const Pattern* const metric_;
  std::array<std::vector<Run>, 2> runs_;
  bool cut_ = false;
};

}  // namespace slipstream::compare
