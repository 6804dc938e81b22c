// Two ways to run one command, compared. `slipstream compare` (tools/cli/compare_command.h) runs the command and fills
// a Comparison. Pure functions here draw the conclusions:
//
//   schedule.h      which side runs when
//   metric.h        the number that a program prints about itself
//   blocks.h        the time of a step that stands for a run
//   ratio.h         the ratio of the sides, its interval, and what could have been seen
//   student_t.h     the distribution behind the interval
//   output_match.h  whether both sides print the same results; output_lines.h takes their lines apart
//   text.h          all of it for people and for scripts
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/compare/metric.h"
#include "tools/compare/output_match.h"
#include "tools/compare/ratio.h"

namespace slipstream::compare {

// What is measured of a run.
enum class Ruler : uint8_t {
  kWall,    // seconds from the start of the command to its end
  kSteps,   // seconds of a step, from a trace (TypicalStep in blocks.h)
  kMetric,  // what the command prints
};

struct Side {
  std::string name;      // short, for tables: "bare", "slipstream", "A"
  std::string detail;    // what that is
  std::string policy{};  // the files it was merged from; empty: no library is loaded
  std::string file{};    // --policy, as it was named; empty: none was
  uint64_t calls = 0;    // to CUDA that the library saw in the last run; 0 for a bare side
  uint64_t processes = 0;
  bool counted = false;  // such calls would have been seen
};

struct RunFigures {
  Figure figure;            // by the ruler
  double wall_seconds = 0;  // of the whole command
  double work_seconds = 0;  // by steps: of one, with what the host waited for the device after them; 0: not known
  bool ran_ahead = false;   // of the device, by so much that `figure` is not what a step takes
};

struct PairOfRuns {
  size_t first = 0;  // the side that ran first
  std::array<RunFigures, 2> runs;
};

// A run that gave no figure.
struct Failure {
  size_t side = 0;
  size_t pair = 0;  // from 1; 0: a warm-up
  std::string what;
  std::vector<std::string> last_lines;  // of its output
};

enum class Outcome : uint8_t {
  kCompared,  // there is an interval, and nothing against either side
  kResultsDiffer,
  kFailsOnOne,  // runs of one side fail, of the other none does
  kFailsOnBoth,
  kTooFew,  // pairs for an interval
};

struct Comparison {
  std::string command;  // for people
  std::array<Side, 2> sides;
  Ruler ruler = Ruler::kWall;
  bool higher_is_better = false;
  std::string metric;  // its pattern; empty: none was named
  Pick pick = Pick::kLast;
  size_t metric_matches = 0;  // in the last run
  std::string step_line;      // where a step begins; empty: not known
  size_t steps = 0;           // measured ones of the last run
  std::string no_steps;       // kWall: steps were looked for, and this is why they are not the ruler

  uint32_t seed = 0;       // of the order of the sides (schedule.h)
  size_t asked_pairs = 0;  // 0: as many as the time allows
  size_t warm_ups = 0;     // of each side
  std::vector<PairOfRuns> pairs;
  std::array<size_t, 2> runs{};  // that came to an end by themselves, warm-ups included
  std::vector<Failure> failures;
  std::string stopped;  // why there are fewer pairs than were asked for; empty: there are not

  std::optional<double> fail_if_slower{};  // a share; nothing: that was not asked
  Estimate estimate;
  std::optional<Estimate> whole;  // kSteps: of the wall time of the same runs
  MatchResult results;
  std::vector<std::string> notes;  // what else a reader has to know, a sentence each
};

// Fills `estimate`; the pairs are there.
void MakeEstimate(Comparison* comparison);

Outcome OutcomeOf(const Comparison& comparison);
// As the JSON spells it.
const char* NameOf(Outcome outcome);
const char* NameOf(Ruler ruler);
const char* NameOf(Pick pick);

}  // namespace slipstream::compare
