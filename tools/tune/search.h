// The search of `slipstream tune`: one key after the other, in contests of two policies that run in turn.
//
// A change is kept if it wins three times, in new pairs of runs each time:
//   1. tried: against the best policy so far. A clear loser is dropped early.
//   2. confirmed: the best policy against itself without the change. Of many changes that do nothing some win once.
//   3. in all: the best policy against the one that there was. What wins here is what is promised.
// A change without which the policy is as fast is taken out again; a policy that wins nothing in all is empty.
//
// A search depends only on its measurements: the same contests in the same order lead to the same state. So an
// interrupted search goes on when its measurements are fed to a new one.
//
// Threading: an object belongs to one thread.
// Errors: none.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/compare/ratio.h"
#include "tools/tune/knobs.h"

namespace slipstream::tune {

// Keys, and values as TOML has them: what differs from the base.
using Settings = std::map<std::string, std::string>;

enum class Stage { kTrying, kConfirming, kInAll };

// Two policies of which one pair of runs is wanted. The challenger is to be the faster one.
struct Contest {
  Stage stage = Stage::kTrying;
  Settings incumbent{};
  Settings challenger{};
  std::string key{};  // that the contest is about; empty: all of them
  std::string value{};
  size_t pair = 0;  // from 0
};

enum class Fate {
  kKept,
  kSlower,
  kNoDifference,  // that could be seen
  kRefused,       // it failed, or printed other results
  kNotConfirmed,  // it won once, and not again
};

// A value that was tried.
struct Tried {
  std::string key;
  std::string value;
  Fate fate = Fate::kNoDifference;
  std::string why{};                             // it was refused
  compare::Estimate estimate{};                  // while it was tried
  std::optional<compare::Estimate> confirmed{};  // as far as it came to that
};

struct SearchOptions {
  bool higher_is_better = false;
  double least_gain = 0.005;  // a share of the speed; a smaller one is not worth a line
  size_t most_pairs = 6;      // of a contest
};

// Of the intervals of the first two stages: a change that wins by chance has to win again, and in all of the last
// stage, which is judged as `slipstream compare` judges.
inline constexpr double kTrialConfidence = 0.95;

class Search {
 public:
  Search(std::vector<Knob> knobs, const SearchOptions& options);

  // What to run next; nothing: it is over.
  const std::optional<Contest>& next() const { return next_; }
  // The figures of its pair: of the incumbent, of the challenger.
  void Add(const compare::FigurePair& figures);
  // The challenger cannot be run.
  void Refuse(const std::string& why);
  // Nothing more is tried; what was kept is confirmed.
  void StopTrying();

  // Pairs that confirming would take now, or once what is being tried is kept too, and those that trying everything may
  // take at most beside them.
  size_t PairsToConfirm() const;
  size_t PairsToConfirmIfKept() const;
  size_t MostPairsToTry() const;

  // What is to be written when it is over: nothing where nothing is won in all.
  const Settings& best() const { return best_; }
  const std::vector<Tried>& tried() const { return tried_; }
  // Of the best policy to the base; nothing: it was not measured.
  const std::optional<compare::Estimate>& in_all() const { return in_all_; }
  bool stopped_early() const { return stopped_early_; }

 private:
  enum class Verdict { kOpen, kWins, kLoses, kNoDifference };

  Verdict Judge() const;
  compare::Estimate Estimated() const;
  void Decide(Fate fate, const std::string& why);
  void Advance();
  void Begin(Contest contest);
  size_t PairsToConfirm(size_t changes) const;
  Tried* KeptChange(const std::string& key);

  const std::vector<Knob> knobs_;
  const SearchOptions options_;
  size_t knob_ = 0;
  size_t value_ = 0;
  Settings best_;
  std::vector<std::string> to_confirm_;  // keys, the last first
  bool confirming_ = false;
  bool stopped_early_ = false;
  bool over_ = false;
  std::vector<compare::FigurePair> pairs_;
  std::optional<Contest> next_;
  std::vector<Tried> tried_;
  std::optional<compare::Estimate> in_all_;
};

const char* NameOf(Fate fate);
const char* NameOf(Stage stage);

}  // namespace slipstream::tune
