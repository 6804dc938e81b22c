#include "tools/trace/advise/advice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/trace/advise/costs.h"
#include "tools/trace/advise/rules.h"

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
    for (const auto& some : {CopyRules(), WaitRules(), DeviceRules(), KernelRules(), MemoryRules(), ProcessRules()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return rules;
}

// What nobody can put a number to counts as half of what it is about, or where it is a guess, a quarter.
int64_t WeightOf(const Advice& advice) {
  return advice.cost.value_or(advice.at_stake / (advice.confidence == Confidence::kLow ? 4 : 2));
}

Findings Advise(const Facts& facts) {
  Findings findings;
  for (const Rule& rule : Rules()) {
    Verdict verdict = rule.look(facts);
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
  for (const Rule* const rule : ShareOut(facts, &findings.advice)) findings.nothing.push_back(rule);
  std::sort(findings.nothing.begin(), findings.nothing.end());  // all are of one list
  PutInOrder(&findings.advice, [](const RuleVerdict& one) -> const Advice& { return one.verdict.advice; });
  return findings;
}

std::optional<Answered> AnswerTo(const Facts& facts, const Findings& findings) {
  const std::optional<report::Verdict> verdict = report::VerdictOf(*facts.report);
  if (!verdict || &facts.report->processes[verdict->process] != facts.process) return std::nullopt;
  if (verdict->bottleneck == report::VerdictKind::kNothing) return std::nullopt;
  if (verdict->bottleneck == report::VerdictKind::kDevicesNotKnown) return std::nullopt;
  const auto at = std::find_if(findings.advice.begin(), findings.advice.end(), [&](const RuleVerdict& one) {
    return (one.rule->about & About(verdict->bottleneck)) != 0;
  });
  const size_t by = at == findings.advice.end() ? 0 : static_cast<size_t>(at - findings.advice.begin()) + 1;
  return Answered{.verdict = *verdict, .by = by};
}

}  // namespace slipstream::advise
