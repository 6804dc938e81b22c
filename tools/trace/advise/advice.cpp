#include "tools/trace/advise/advice.h"

#include <algorithm>

#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {

const char* NameOf(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow:
      return "low";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kHigh:
      return "high";
  }
  return "";
}

std::span<const Rule> Rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (const auto& some : {CopyRules(), WaitRules(), DeviceRules(), MemoryRules(), ProcessRules()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return rules;
}

namespace {

// Nobody changes a program for less than this share of a step.
constexpr double kLeastShare = 0.005;

// No change saves more than all of it.
Verdict Weighed(const Facts& facts, Verdict verdict) {
  std::optional<int64_t>& cost = verdict.advice.cost;
  if (verdict.kind != Verdict::Kind::kAdvice || !cost) return verdict;
  const double step = StepOf(facts);
  cost = std::clamp<int64_t>(*cost, 0, static_cast<int64_t>(step));
  return static_cast<double>(*cost) < kLeastShare * step ? Verdict::Nothing() : verdict;
}

}  // namespace

// What nobody can put a number to counts as half of what it is about, or where it is a guess, a quarter.
int64_t WeightOf(const Advice& advice) {
  return advice.cost.value_or(advice.at_stake / (advice.confidence == Confidence::kLow ? 4 : 2));
}

Findings Advise(const Facts& facts) {
  Findings findings;
  for (const Rule& rule : Rules()) {
    Verdict verdict = Weighed(facts, rule.look(facts));
    switch (verdict.kind) {
      case Verdict::Kind::kNothing:
        findings.nothing.push_back(&rule);
        break;
      case Verdict::Kind::kAdvice:
        findings.advice.push_back({&rule, std::move(verdict)});
        break;
      case Verdict::Kind::kAbstains:
        findings.abstained.push_back({&rule, std::move(verdict)});
        break;
    }
  }
  std::stable_sort(findings.advice.begin(), findings.advice.end(), [](const RuleVerdict& a, const RuleVerdict& b) {
    return WeightOf(a.verdict.advice) > WeightOf(b.verdict.advice);
  });
  return findings;
}

}  // namespace slipstream::advise
