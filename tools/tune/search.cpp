#include "tools/tune/search.h"

#include <algorithm>
#include <utility>

namespace slipstream::tune {
namespace {

// Two pairs of which both are slower by so much are enough to drop a challenger. Nothing is promised by that.
constexpr size_t kLeastToDrop = 2;
constexpr double kClearlySlower = 0.98;

}  // namespace

Search::Search(std::vector<Knob> knobs, const SearchOptions& options) : knobs_(std::move(knobs)), options_(options) {
  Advance();
}

void Search::Begin(Contest contest) {
  pairs_.clear();
  next_ = std::move(contest);
}

// To the next contest, as `knob_`, `value_` and what is to be confirmed say.
void Search::Advance() {
  next_.reset();
  if (over_) return;
  while (!confirming_ && knob_ < knobs_.size()) {
    const Knob& knob = knobs_[knob_];
    if (value_ < knob.values.size()) {
      Contest contest = {.stage = Stage::kTrying, .incumbent = best_, .challenger = best_, .key = knob.key};
      contest.value = knob.values[value_];
      contest.challenger[knob.key] = contest.value;
      Begin(std::move(contest));
      return;
    }
    ++knob_;
    value_ = 0;
  }
  if (!confirming_) {
    confirming_ = true;
    // Of one change alone the contest in all is the same.
    if (best_.size() > 1) {
      for (const auto& [key, value] : best_) to_confirm_.push_back(key);
    }
  }
  if (!to_confirm_.empty()) {
    Contest contest = {.stage = Stage::kConfirming, .incumbent = best_, .challenger = best_};
    contest.key = to_confirm_.back();
    contest.value = best_[contest.key];
    contest.incumbent.erase(contest.key);
    Begin(std::move(contest));
    return;
  }
  if (best_.empty()) {
    over_ = true;
    return;
  }
  Begin({.stage = Stage::kInAll, .incumbent = {}, .challenger = best_});
}

compare::Estimate Search::Estimated() const {
  return compare::EstimateRatio(pairs_, options_.higher_is_better,
                                next_->stage == Stage::kInAll ? compare::kConfidence : kTrialConfidence);
}

Search::Verdict Search::Judge() const {
  const compare::Estimate estimate = Estimated();
  const bool trying = next_->stage == Stage::kTrying;
  const bool last = pairs_.size() >= options_.most_pairs;
  if (!trying && !last) return Verdict::kOpen;  // looked at once: an interval that is looked at often holds less
  if (trying && pairs_.size() >= kLeastToDrop) {
    const bool slower = std::all_of(pairs_.begin(), pairs_.end(), [this](const compare::FigurePair& pair) {
      return compare::SpeedRatio(pair, options_.higher_is_better) < kClearlySlower;
    });
    if (slower) return Verdict::kLoses;
  }
  if (estimate.has_interval) {
    if (estimate.low > 1 && estimate.ratio >= 1 + options_.least_gain) return Verdict::kWins;
    if (estimate.high < 1) return Verdict::kLoses;
    if (estimate.high < 1 + options_.least_gain) return Verdict::kNoDifference;
  }
  return last ? Verdict::kNoDifference : Verdict::kOpen;
}

void Search::Add(const compare::FigurePair& figures) {
  if (!next_) return;
  pairs_.push_back(figures);
  switch (Judge()) {
    case Verdict::kOpen:
      ++next_->pair;
      break;
    case Verdict::kWins:
      Decide(Fate::kKept, "");
      break;
    case Verdict::kLoses:
      Decide(Fate::kSlower, "");
      break;
    case Verdict::kNoDifference:
      Decide(Fate::kNoDifference, "");
      break;
  }
}

void Search::Refuse(const std::string& why) {
  if (next_) Decide(Fate::kRefused, why);
}

Tried* Search::KeptChange(const std::string& key) {
  const auto kept = std::find_if(tried_.rbegin(), tried_.rend(),
                                 [&](const Tried& tried) { return tried.key == key && tried.fate == Fate::kKept; });
  return kept == tried_.rend() ? nullptr : &*kept;
}

void Search::Decide(Fate fate, const std::string& why) {
  const compare::Estimate estimate = Estimated();
  const Contest contest = *next_;
  if (contest.stage == Stage::kTrying) {
    // A better value of the same key takes the place of the one before.
    if (fate == Fate::kKept) {
      if (Tried* const before = KeptChange(contest.key)) before->fate = Fate::kSlower;
      best_[contest.key] = contest.value;
    }
    Tried tried = {.key = contest.key, .value = contest.value, .fate = fate, .why = why};
    tried.estimate = estimate;
    tried_.push_back(std::move(tried));
    ++value_;
  } else if (contest.stage == Stage::kConfirming) {
    if (Tried* const kept = KeptChange(contest.key)) {
      kept->confirmed = estimate;
      if (fate != Fate::kKept) {
        kept->fate = fate == Fate::kRefused ? Fate::kRefused : Fate::kNotConfirmed;
        kept->why = why;
      }
    }
    if (fate != Fate::kKept) best_.erase(contest.key);
    to_confirm_.pop_back();
  } else {
    in_all_ = estimate;
    if (fate != Fate::kKept) {
      for (const auto& [key, value] : best_) {
        Tried* const kept = KeptChange(key);
        if (kept == nullptr) continue;
        kept->fate = fate == Fate::kRefused ? Fate::kRefused : Fate::kNotConfirmed;
        kept->why = why;
      }
      best_.clear();
    } else if (best_.size() == 1) {
      if (Tried* const kept = KeptChange(best_.begin()->first)) kept->confirmed = estimate;
    }
    over_ = true;
  }
  Advance();
}

void Search::StopTrying() {
  if (confirming_) return;
  stopped_early_ = true;
  knob_ = knobs_.size();
  Advance();
}

// Each change by itself, and all of them. Of one change alone the two are the same.
size_t Search::PairsToConfirm(size_t changes) const {
  return (changes > 1 ? changes + 1 : changes) * options_.most_pairs;
}

size_t Search::PairsToConfirm() const {
  if (over_ || best_.empty()) return 0;
  return confirming_ ? (to_confirm_.size() + 1) * options_.most_pairs - pairs_.size() : PairsToConfirm(best_.size());
}

size_t Search::PairsToConfirmIfKept() const {
  const bool is_new = !confirming_ && next_ && !best_.contains(next_->key);
  return is_new ? PairsToConfirm(best_.size() + 1) : PairsToConfirm();
}

size_t Search::MostPairsToTry() const {
  if (confirming_) return 0;
  size_t values = 0;
  for (size_t i = knob_; i < knobs_.size(); ++i) values += knobs_[i].values.size() - (i == knob_ ? value_ : 0);
  return values * options_.most_pairs - pairs_.size();
}

const char* NameOf(Fate fate) {
  switch (fate) {
    case Fate::kKept:
      return "kept";
    case Fate::kSlower:
      return "slower";
    case Fate::kNoDifference:
      return "no_difference";
    case Fate::kRefused:
      return "refused";
    case Fate::kNotConfirmed:
      return "not_confirmed";
  }
  return "";
}

const char* NameOf(Stage stage) {
  switch (stage) {
    case Stage::kTrying:
      return "trying";
    case Stage::kConfirming:
      return "confirming";
    case Stage::kInAll:
      return "in_all";
  }
  return "";
}

}  // namespace slipstream::tune
