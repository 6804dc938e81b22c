#include "tools/trace/advise/ranks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::advise {
namespace {

// As Report::communication has it. Nothing: it does not communicate.
std::optional<int64_t> InCommunication(const report::ProcessReport& process) {
  if (!process.has_steps || process.communication() == 0) return std::nullopt;
  return process.communication() / static_cast<int64_t>(process.measured_steps);
}

std::optional<int64_t> WaitOf(const report::Report& report, const report::ProcessReport& process) {
  const std::optional<int64_t> mine = InCommunication(process);
  if (!report.communication || !mine) return std::nullopt;
  return *mine - InCommunication(report.processes[report.communication->waited_for]).value_or(0);
}

size_t PlaceOf(const Rule* rule) {
  const auto rules = Rules();
  return static_cast<size_t>(std::find_if(rules.begin(), rules.end(), [&](const Rule& one) { return &one == rule; }) -
                             rules.begin());
}

}  // namespace

bool IsOfTheRun(const Rule& rule) { return std::string_view(rule.needs) == "several ranks"; }

std::vector<size_t> RanksOf(const report::Report& report) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < report.processes.size(); ++i) {
    if (report.processes[i].has_steps) ranks.push_back(i);
  }
  return ranks;
}

void RanksAdvice::Add(const Facts& facts, const Findings& findings) {
  const size_t rank = findings_.ranks.size();
  RankRow& row = findings_.ranks.emplace_back();
  row.process = static_cast<size_t>(facts.process - report_.processes.data());
  row.idle = facts.IdlePerStep();
  row.communication_wait = WaitOf(report_, *facts.process);
  row.work = std::max<int64_t>(facts.process->pace_of_work().median - row.communication_wait.value_or(0), 0);
  row.recording = facts.recording;
  row.step = UnrecordedStep(facts);
  const auto first = std::find_if(findings.advice.begin(), findings.advice.end(),
                                  [](const RuleVerdict& found) { return !IsOfTheRun(*found.rule); });
  if (first != findings.advice.end()) row.first = first->rule;

  for (const RuleVerdict& found : findings.advice) {
    auto at = std::find_if(findings_.advice.begin(), findings_.advice.end(),
                           [&](const RankFinding& one) { return one.rule == found.rule; });
    if (at == findings_.advice.end()) {
      at = findings_.advice.insert(findings_.advice.end(), {found.rule, found.verdict.advice, rank, {}});
    } else if (WeightOf(found.verdict.advice) > WeightOf(at->advice)) {
      at->advice = found.verdict.advice;
      at->rank = rank;
    }
    at->ranks.push_back(rank);
  }
  for (const RuleVerdict& one : findings.abstained) {
    auto at = std::find_if(findings_.abstained.begin(), findings_.abstained.end(), [&](const RankAbstention& other) {
      return other.rule == one.rule && other.why == one.verdict.why;
    });
    if (at == findings_.abstained.end()) {
      at = findings_.abstained.insert(findings_.abstained.end(), {one.rule, one.verdict.why, {}});
    }
    at->ranks.push_back(rank);
  }
}

RanksFindings RanksAdvice::Finish() {
  PutInOrder(&findings_.advice, [](const RankFinding& one) -> const Advice& { return one.advice; });
  std::stable_sort(findings_.abstained.begin(), findings_.abstained.end(),
                   [](const RankAbstention& a, const RankAbstention& b) { return PlaceOf(a.rule) < PlaceOf(b.rule); });
  for (const Rule& rule : Rules()) {
    const auto is = [&](const auto& one) { return one.rule == &rule; };
    if (std::none_of(findings_.advice.begin(), findings_.advice.end(), is) &&
        std::none_of(findings_.abstained.begin(), findings_.abstained.end(), is)) {
      findings_.nothing.push_back(&rule);
    }
  }
  std::vector<int64_t> work;
  for (size_t i = 0; i < findings_.ranks.size(); ++i) {
    work.push_back(findings_.ranks[i].work);
    if (work[i] > work[findings_.most_work]) findings_.most_work = i;
  }
  const report::Distribution all = report::DistributionOf(std::move(work));
  findings_.work_max = all.max;
  findings_.work_median = all.median;
  return std::move(findings_);
}

}  // namespace slipstream::advise
