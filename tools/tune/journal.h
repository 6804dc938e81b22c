// The measurements of a search on disk, so that an interrupted search can go on.
//
// Text, one JSON object a line: the first says what was searched, each other one has the result of one pair of a
// contest. A line without an end, from a process that was killed while it wrote, is not read.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tune/search.h"

namespace slipstream::tune {

inline constexpr char kJournalSchema[] = "slipstream-tune-journal-3";

// Where it is measured. Empty: not known.
struct Place {
  std::string host{};
  std::string devices{};     // "2 x NVIDIA H200"
  std::string driver{};      // its version
  std::string slipstream{};  // the same
};

// What must be the same for a search to go on from its measurements.
struct Subject {
  std::vector<std::string> command;
  std::string policy;  // every value of it, as text
  std::string ruler;   // what is compared, and how
  std::vector<Knob> knobs;
  Place place{};
};

struct Event {
  enum class Kind { kPair, kRefused, kStopped };
  Kind kind = Kind::kPair;
  compare::FigurePair figures{};
  std::string why{};  // it was refused
};

// Of the command the name of its program and a digest: arguments may hold secrets.
std::string SubjectLine(const Subject& subject);
// `contest`: that it is about, as it was.
std::string EventLine(const Contest* contest, const Event& event);

// The knobs that a journal is about; nothing: it does not say, or is none.
std::optional<std::vector<Knob>> KnobsOf(std::string_view text);

struct Replayed {
  size_t events = 0;
  bool stopped = false;  // the time was over, and not everything had been tried
  size_t bytes = 0;      // of the text that was read; what is behind them is cut off before more is written
  std::string error;     // empty: the search stands where the other one was
};
// Feeds the search what the text holds. A search that was stopped because its time was over goes on trying: what had
// been measured to confirm the policy of then is left out.
Replayed Replay(std::string_view text, const Subject& subject, Search* search);

}  // namespace slipstream::tune
