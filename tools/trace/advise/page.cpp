#include "tools/trace/advise/page.h"

#include <cstddef>
#include <string>
#include <utility>

#include "tools/trace/advise/sums.h"
#include "tools/trace/advise/text.h"

namespace slipstream::advise {
namespace {

constexpr size_t kPlace = 160;

report::PageFinding FindingOfPage(const Rule& rule, const Advice& advice, std::string head, std::string whose) {
  report::PageFinding finding = {
      .head = std::move(head), .rule = rule.name, .whose = std::move(whose), .found = advice.finding};
  finding.evidence = advice.evidence;
  for (const Place& place : advice.places) finding.places.push_back(PlaceText(place, kPlace));
  if (!advice.cost) finding.evidence.push_back("not known: " + advice.why_unknown);
  finding.change = advice.change;
  finding.snippet = advice.snippet;
  return finding;
}

}  // namespace

std::vector<report::PageFinding> FindingsOfPage(const Facts& facts, const Findings& findings) {
  std::vector<report::PageFinding> page;
  for (const RuleVerdict& found : findings.advice) {
    const Advice& advice = found.verdict.advice;
    page.push_back(FindingOfPage(*found.rule, advice,
                                 FindingHead(*found.rule, advice, *facts.process, UnrecordedStep(facts), 1), ""));
  }
  return page;
}

std::vector<report::PageFinding> FindingsOfPage(const report::Report& report, const RanksFindings& findings) {
  std::vector<report::PageFinding> page;
  for (const RankFinding& found : findings.advice) {
    const RankRow& row = findings.ranks[found.rank];
    page.push_back(FindingOfPage(
        *found.rule, found.advice,
        FindingHead(*found.rule, found.advice, report.processes[row.process], row.step, found.ranks.size()),
        WhoseText(report, findings, found)));
  }
  return page;
}

}  // namespace slipstream::advise
