// A line that a program printed, as words and numbers.
//
// What a program says about its own run (how long it took, how fast it was, what time it is, how much memory it holds)
// is a measurement, and no result: such numbers are known by their unit ("8.3 ms", "106.8 samples/s", "12 GiB"), by the
// word in front ("elapsed: 12") or by their form ("12:03:55"), and are not compared.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slipstream::compare {

struct NumberField {
  std::string text;
  bool measured = false;  // a time, a rate, a clock or memory
};

struct LineParts {
  // The line with '#' for each number and single blanks: lines that differ in their numbers alone have the same.
  std::string skeleton;
  std::vector<NumberField> numbers;
  // Whether it has a number that may be a result.
  bool has_results() const;
};

// Numbers are decimal ones, nan, inf, and words of eight or more hexadecimal digits (sums of files). A number inside of
// a word ("resnet50", "cuda:0") belongs to the word.
LineParts PartsOf(std::string_view line);

}  // namespace slipstream::compare
