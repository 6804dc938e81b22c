// The measurements of a search on disk, so that an interrupted search can go on.
//
// Text, one JSON object a line: the first says what was searched, each other one has the result of one pair of a
// contest. A line without an end, from a process that was killed while it wrote, is not read.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tune/search.h"

namespace slipstream::tune {

inline constexpr char kJournalSchema[] = "slipstream-tune-journal-1";

// What must be the same for a search to go on from its measurements.
struct Subject {
  std::vector<std::string> command;
  std::string policy;  // every value of it, as text
  std::string ruler;   // what is compared, and how
  std::vector<Knob> knobs;
};

struct Event {
  enum class Kind { kPair, kRefused, kStopped };
  Kind kind = Kind::kPair;
  compare::FigurePair figures{};
  std::string why{};  // it was refused
};

std::string SubjectLine(const Subject& subject);
// `contest`: that it is about, as it was.
std::string EventLine(const Contest* contest, const Event& event);

struct Replayed {
  size_t events = 0;
  size_t bytes = 0;   // of the text that was read; what is behind them is cut off before more is written
  std::string error;  // empty: the search stands where the other one was
};
// Feeds the search what the text holds.
Replayed Replay(std::string_view text, const Subject& subject, Search* search);

}  // namespace slipstream::tune
