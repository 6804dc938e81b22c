#include "tools/trace/advise/costs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/trace/advise/sums.h"
#include "tools/trace/report/format.h"

namespace slipstream::advise {
namespace {

// Nobody changes a program for less than this share of a step.
constexpr double kLeastShare = 0.005;
// What another one has taken is worth a word from here on.
constexpr double kWorthTrying = 0.02;

// Where the host runs ahead of the device, its steps are shorter than what they ask for.
int64_t StepTime(const Facts& facts) {
  const auto step = static_cast<int64_t>(StepOf(facts));
  return facts.replay != nullptr ? std::max(step, facts.replay->Recorded()) : step;
}

class Costs {
 public:
  Costs(const Facts& facts, std::vector<RuleVerdict>* findings)
      : facts_(facts), findings_(*findings), step_(StepTime(facts)) {
    const auto idle = facts.IdlePerStep();
    left_[Index(Gains::kIdle)] = idle.value_or(step_);
    left_[Index(Gains::kBusy)] = idle ? std::max<int64_t>(0, step_ - *idle) : step_;
    left_[Index(Gains::kSlowSteps)] = std::numeric_limits<int64_t>::max();
  }

  std::vector<const Rule*> ShareOut() {
    const bool all_are_one = facts_.IdlePerStep() == std::nullopt;
    for (RuleVerdict& found : findings_) {
      Advice& advice = found.verdict.advice;
      alone_.push_back(IsReplayed(advice) ? SavedWith(WhatIf{}, advice) + advice.of_slow_steps
                                          : advice.cost.value_or(0));
      if (advice.cost) advice.cost = std::clamp<int64_t>(alone_.back(), 0, step_);
      alone_.back() = advice.cost.value_or(0);
    }
    kept_.assign(findings_.size(), false);
    counted_.assign(findings_.size(), false);
    std::vector<size_t> small;
    for (const size_t i : InOrder()) {
      Advice& advice = findings_[i].verdict.advice;
      if (!advice.cost) continue;
      if (!IsWorth(alone_[i], kLeastShare)) {
        small.push_back(i);
        continue;
      }
      if (IsReplayed(advice)) {
        ShareReplayed(i);
      } else {
        Limit(i);
      }
      counted_[i] = true;
      TakeFrom(advice.gains, *advice.cost);
      if (all_are_one && advice.gains != Gains::kSlowSteps) {
        TakeFrom(advice.gains == Gains::kIdle ? Gains::kBusy : Gains::kIdle, *advice.cost);
      }
    }
    // Of waits for the same work each may be worth nothing by itself. What is worth nothing of the device's time is
    // hidden by the host's.
    for (const size_t i : small) {
      const Advice& advice = findings_[i].verdict.advice;
      if (IsReplayed(advice) && advice.gains == Gains::kIdle && advice.scope > Scope::kGeneral) ShareReplayed(i);
    }
    return TakeOut();
  }

 private:
  static size_t Index(Gains gains) { return static_cast<size_t>(gains); }
  bool IsReplayed(const Advice& advice) const {
    return advice.cost.has_value() && facts_.replay != nullptr && !advice.what_if.empty();
  }
  const char* NameOfRule(size_t i) const { return findings_[i].rule->name; }
  bool IsWorth(int64_t cost, double share) const {
    return static_cast<double>(cost) >= share * static_cast<double>(step_);
  }
  void TakeFrom(Gains gains, int64_t time) {
    int64_t& left = left_[Index(gains)];
    if (gains != Gains::kSlowSteps) left = std::max<int64_t>(0, left - time);
  }

  // Of a step, by these changes and what the advice says.
  int64_t SavedWith(WhatIf changes, const Advice& advice) const {
    int64_t most = std::numeric_limits<int64_t>::max();
    if (!advice.no_more.empty()) {
      WhatIf limited = changes;
      limited.Add(advice.no_more);
      most = facts_.replay->Saved(limited);
    }
    changes.Add(advice.what_if);
    return std::min(most, facts_.replay->Saved(changes));
  }

  // The most specific first, then the surest, then the most costly.
  std::vector<size_t> InOrder() const {
    std::vector<size_t> order(findings_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto key = [&](size_t i) {
        const Advice& advice = findings_[i].verdict.advice;
        return std::tuple(advice.scope, advice.confidence, alone_[i]);
      };
      return key(a) > key(b);
    });
    return order;
  }

  // What it would gain of the usual steps by itself.
  int64_t Replayed(size_t i) const {
    return std::max<int64_t>(0, alone_[i] - findings_[i].verdict.advice.of_slow_steps);
  }

  // What it gains on top of those before it.
  void ShareReplayed(size_t i) {
    Advice& advice = findings_[i].verdict.advice;
    const int64_t saved = SavedWith(all_, advice);
    // Of what is left for general ones, nothing is theirs that they would not gain by themselves.
    const int64_t most = advice.scope <= Scope::kGeneral ? Replayed(i) : step_;
    const int64_t more = std::min(std::clamp<int64_t>(saved - saved_, 0, most) + advice.of_slow_steps, step_);
    if (IsWorth(alone_[i] - more, kLeastShare)) {
      const size_t other = MostShared(i, /*sign=*/1);
      if (other != i) {
        advice.evidence.push_back("by itself " + report::Time(alone_[i]) + ": the rest is counted under " +
                                  NameOfRule(other));
      }
    } else if (IsWorth(more - alone_[i], kLeastShare)) {
      // Where one wait is gone, the host comes to the next one.
      const size_t other = MostShared(i, /*sign=*/-1);
      if (other != i) {
        advice.evidence.push_back("by itself " + report::Time(alone_[i]) + ": the rest only once " + NameOfRule(other) +
                                  " is gone too");
        kept_[other] = true;
      }
    }
    advice.cost = more;
    // What is left of the host's time is no more than what no replay could take from it either.
    const int64_t left = left_[Index(advice.gains)];
    if (advice.scope <= Scope::kGeneral && more > left) {
      const size_t other = TookMost(i);
      if (other != i && IsWorth(more - left, kLeastShare)) {
        advice.evidence.push_back("without what is counted under " + std::string(NameOfRule(other)) + ", about " +
                                  report::Time(left));
      }
      advice.cost = left;
    }
    all_.Add(advice.what_if);
    // What is more than it may claim is nobody's.
    saved_ = std::max(saved_, advice.no_more.empty() ? saved : facts_.replay->Saved(all_));
    done_.push_back(i);
  }

  // Of those before it, the one with which it gains least together (sign 1), or most (-1), compared to both by
  // themselves; itself: there is none.
  size_t MostShared(size_t i, int64_t sign) const {
    size_t most = i;
    int64_t most_shared = 0;
    for (const size_t other : done_) {
      const int64_t both = SavedWith(findings_[other].verdict.advice.what_if, findings_[i].verdict.advice);
      const int64_t shared = sign * (Replayed(i) + Replayed(other) - both);
      if (shared <= most_shared) continue;
      most = other;
      most_shared = shared;
    }
    return most == i && !done_.empty() ? done_.front() : most;
  }

  // Without a replay: without the calls and the work that are counted already, and to what is left of the device's
  // time.
  void Limit(size_t i) {
    Advice& advice = findings_[i].verdict.advice;
    const int64_t left = left_[Index(advice.gains)];
    const int64_t limited = std::min(left, std::max<int64_t>(0, *advice.cost - CommonTime(ChangeOf(advice), all_)));
    if (IsWorth(*advice.cost - limited, kLeastShare)) {
      const size_t other = TookMost(i);
      if (other != i) {
        advice.evidence.push_back("by itself " + report::Time(*advice.cost) + ": the rest is counted under " +
                                  NameOfRule(other));
      }
    }
    advice.cost = limited;
    all_.Add(ChangeOf(advice));
  }

  // What counts where no replay says it: a copy that moves takes its time elsewhere, and how much shorter it seems to
  // the step is in the limit.
  static const WhatIf& ChangeOf(const Advice& advice) {
    return advice.no_more.empty() ? advice.what_if : advice.no_more;
  }

  // Time of a step in calls and work that both change.
  int64_t CommonTime(const WhatIf& a, const WhatIf& b) const {
    int64_t time = 0;
    for (size_t i = 0; i < std::min({a.calls.size(), b.calls.size(), facts_.calls.size()}); ++i) {
      if (a.calls[i] != CallChange::kStays && b.calls[i] != CallChange::kStays) {
        report::AddTo(&time, facts_.calls[i].time);
      }
    }
    for (size_t i = 0; i < std::min({a.work.size(), b.work.size(), facts_.work.size()}); ++i) {
      const double gone = 1 - std::max(a.work[i], b.work[i]);
      report::AddTo(&time, static_cast<int64_t>(static_cast<double>(facts_.work[i].time) * gone));
    }
    return facts_.PerStep(time);
  }

  // Of those that are counted: the one that has most in common with it, else the most costly of its kind; itself: none.
  size_t TookMost(size_t i) const {
    const Advice& advice = findings_[i].verdict.advice;
    size_t most = i;
    std::pair<int64_t, int64_t> most_time;
    for (size_t other = 0; other < findings_.size(); ++other) {
      const Advice& one = findings_[other].verdict.advice;
      if (other == i || !counted_[other]) continue;
      const int64_t common = CommonTime(ChangeOf(advice), ChangeOf(one));
      const std::pair<int64_t, int64_t> time = {common, one.gains == advice.gains ? *one.cost : 0};
      if (time <= most_time) continue;
      most = other;
      most_time = time;
    }
    return most;
  }

  std::vector<const Rule*> TakeOut() {
    std::vector<const Rule*> out;
    size_t to = 0;
    for (size_t i = 0; i < findings_.size(); ++i) {
      const Advice& advice = findings_[i].verdict.advice;
      const bool worth = !advice.cost || IsWorth(*advice.cost, kLeastShare) || kept_[i] ||
                         (IsWorth(alone_[i], kWorthTrying) && advice.scope > Scope::kGeneral);
      if (!worth) {
        out.push_back(findings_[i].rule);
        continue;
      }
      if (to != i) findings_[to] = std::move(findings_[i]);
      ++to;
    }
    findings_.resize(to);
    return out;
  }

  const Facts& facts_;
  std::vector<RuleVerdict>& findings_;
  const int64_t step_;
  std::array<int64_t, 3> left_{};  // by Gains
  std::vector<int64_t> alone_;     // what each one would gain by itself
  std::vector<bool> kept_;         // however little they gain by themselves
  std::vector<bool> counted_;      // those that were shared out so far
  WhatIf all_;                     // of them
  int64_t saved_ = 0;              // by those of them that can be replayed
  std::vector<size_t> done_;       // these
};

}  // namespace

std::vector<const Rule*> ShareOut(const Facts& facts, std::vector<RuleVerdict>* findings) {
  return Costs(facts, findings).ShareOut();
}

}  // namespace slipstream::advise
