#include <optional>
#include <utility>
#include <vector>

#include "tools/text/json_text.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/text.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::advise {
namespace {

using text::Json;
using text::OrNull;

Json PlacesJson(const std::vector<Place>& places) {
  Json list = Json::array();
  for (const Place& place : places) {
    list.push_back({{"file", place.file}, {"line", OrNull(place.line)}, {"function", OrNull(place.function)}});
  }
  return list;
}

Json AdviceJson(const Rule& rule, const Advice& advice, const report::ProcessReport& process, size_t ranks = 1) {
  const std::optional<double> gained = GpuTimeOf(process, advice, ranks);
  return {{"rule", rule.name},
          {"finding", advice.finding},
          {"cost_per_step_ns", OrNull(advice.cost)},
          {"cost_unknown_because", OrNull(advice.why_unknown)},
          {"at_stake_per_step_ns", advice.at_stake},
          {"gpu_seconds_of_run", gained ? Json(*gained / 1e9) : Json(nullptr)},
          {"confidence", NameOf(advice.confidence)},
          {"evidence", advice.evidence},
          {"places", PlacesJson(advice.places)},
          {"change", advice.change},
          {"snippet", advice.snippet}};
}

Json NamesJson(const std::vector<const Rule*>& rules) {
  Json names = Json::array();
  for (const Rule* const rule : rules) names.push_back(rule->name);
  return names;
}

// Rank numbers, null where a process has none.
Json RankNumbers(const report::Report& report, const RanksFindings& findings, const std::vector<size_t>& ranks) {
  Json numbers = Json::array();
  for (const size_t rank : ranks) numbers.push_back(OrNull(report.processes[findings.ranks[rank].process].rank));
  return numbers;
}

Json ProcessNumbers(const report::Report& report, const RanksFindings& findings, const std::vector<size_t>& ranks) {
  Json numbers = Json::array();
  for (const size_t rank : ranks) numbers.push_back(report.processes[findings.ranks[rank].process].process);
  return numbers;
}

Json RowJson(const report::ProcessReport& process, const RankRow& row) {
  return {{"process", process.process},
          {"rank", OrNull(process.rank)},
          {"host", OrNull(process.host)},
          {"steps", process.measured_steps},
          {"step_time_median_ns", process.pace_of_work().median},
          {"step_time_mean_ns", process.pace_of_work().mean()},
          {"step_time_median_before_devices_ns", OrNull(process.median_before_devices())},
          {"recording_left_out_per_step_ns", row.recording},
          {"idle_per_step_ns", OrNull(row.idle)},
          {"communication_wait_per_step_ns", OrNull(row.communication_wait)},
          {"step_time_without_wait_ns", row.work},
          {"first_finding", row.first == nullptr ? Json(nullptr) : Json(row.first->name)}};
}

Json SlowestJson(const report::Report& report) {
  if (!report.slowest) return nullptr;
  const report::ProcessReport& process = report.processes[report.slowest->process];
  return {{"process", process.process},
          {"rank", OrNull(process.rank)},
          {"difference_per_step_ns", report.slowest->difference}};
}

}  // namespace

std::string FindingsJson(const Facts& facts, const Findings& findings, bool partial) {
  const std::vector<std::string> missing = MissingOf(facts);
  Json advice = Json::array();
  for (const RuleVerdict& found : findings.advice)
    advice.push_back(AdviceJson(*found.rule, found.verdict.advice, *facts.process));
  Json abstained = Json::array();
  for (const RuleVerdict& one : findings.abstained) {
    abstained.push_back({{"rule", one.rule->name}, {"why", one.verdict.why}});
  }
  Json verdict = nullptr;
  if (const std::optional<Answered> answered = AnswerTo(facts, findings)) {
    verdict = {{"kind", report::NameOf(answered->verdict.bottleneck)},
               {"sentence", report::VerdictSentence(*facts.report, answered->verdict)},
               {"answered_by", answered->by != 0 ? Json(findings.advice[answered->by - 1].rule->name) : Json(nullptr)}};
  }
  return text::JsonText({{"schema", kAdviseSchema},
                         {"partial", partial || !missing.empty()},
                         {"missing", missing},
                         {"process", facts.process->process},
                         {"steps", facts.process->measured_steps},
                         {"step_time_median_ns", facts.process->pace_of_work().median},
                         {"step_time_mean_ns", facts.process->pace_of_work().mean()},
                         {"step_time_median_before_devices_ns", OrNull(facts.process->median_before_devices())},
                         {"recording_left_out_per_step_ns", facts.recording},
                         {"report_verdict", std::move(verdict)},
                         {"advice", std::move(advice)},
                         {"cannot_be_told", std::move(abstained)},
                         {"nothing_found", NamesJson(findings.nothing)}});
}

std::string RanksJson(const report::Report& report, const RanksFindings& findings, bool partial) {
  const std::vector<std::string> missing = MissingOf(report, findings);
  const report::ProcessReport& shown = report.processes[report.shown];
  Json ranks = Json::array();
  for (const RankRow& row : findings.ranks) ranks.push_back(RowJson(report.processes[row.process], row));
  Json advice = Json::array();
  for (const RankFinding& found : findings.advice) {
    const report::ProcessReport& most = report.processes[findings.ranks[found.rank].process];
    Json one = AdviceJson(*found.rule, found.advice, most, found.ranks.size());
    one["ranks"] = RankNumbers(report, findings, found.ranks);
    one["processes"] = ProcessNumbers(report, findings, found.ranks);
    one["figures_of_process"] = most.process;
    advice.push_back(std::move(one));
  }
  Json abstained = Json::array();
  for (const RankAbstention& one : findings.abstained) {
    abstained.push_back({{"rule", one.rule->name},
                         {"why", one.why},
                         {"ranks", RankNumbers(report, findings, one.ranks)},
                         {"processes", ProcessNumbers(report, findings, one.ranks)}});
  }
  return text::JsonText({{"schema", kAdviseSchema},
                         {"partial", partial || !missing.empty()},
                         {"missing", missing},
                         {"process", shown.process},
                         {"steps", shown.measured_steps},
                         {"step_time_median_ns", shown.pace_of_work().median},
                         {"ranks", std::move(ranks)},
                         {"slowest", SlowestJson(report)},
                         {"imbalance", findings.imbalance()},
                         {"advice", std::move(advice)},
                         {"cannot_be_told", std::move(abstained)},
                         {"nothing_found", NamesJson(findings.nothing)}});
}

std::string RulesJson() {
  Json rules = Json::array();
  for (const Rule& rule : Rules()) {
    rules.push_back({{"rule", rule.name}, {"title", rule.title}, {"needs", rule.needs}});
  }
  return text::JsonText({{"schema", kAdviseSchema}, {"rules", std::move(rules)}});
}

}  // namespace slipstream::advise
