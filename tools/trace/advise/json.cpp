#include "tools/text/json_text.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/text.h"

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

}  // namespace

std::string FindingsJson(const Facts& facts, const Findings& findings) {
  Json advice = Json::array();
  for (const RuleVerdict& found : findings.advice) {
    const Advice& one = found.verdict.advice;
    advice.push_back({{"rule", found.rule->name},
                      {"finding", one.finding},
                      {"cost_per_step_ns", OrNull(one.cost)},
                      {"cost_unknown_because", OrNull(one.why_unknown)},
                      {"at_stake_per_step_ns", one.at_stake},
                      {"confidence", NameOf(one.confidence)},
                      {"evidence", one.evidence},
                      {"places", PlacesJson(one.places)},
                      {"change", one.change},
                      {"snippet", one.snippet}});
  }
  Json abstained = Json::array();
  for (const RuleVerdict& one : findings.abstained) {
    abstained.push_back({{"rule", one.rule->name}, {"why", one.verdict.why}});
  }
  Json nothing = Json::array();
  for (const Rule* const rule : findings.nothing) nothing.push_back(rule->name);
  return text::JsonText({{"schema", kAdviseSchema},
                         {"process", facts.process->process},
                         {"steps", facts.process->measured_steps},
                         {"step_time_median_ns", facts.process->step_time.median},
                         {"advice", std::move(advice)},
                         {"cannot_be_told", std::move(abstained)},
                         {"nothing_found", std::move(nothing)}});
}

std::string RulesJson() {
  Json rules = Json::array();
  for (const Rule& rule : Rules()) {
    rules.push_back({{"rule", rule.name}, {"title", rule.title}, {"needs", rule.needs}});
  }
  return text::JsonText({{"schema", kAdviseSchema}, {"rules", std::move(rules)}});
}

}  // namespace slipstream::advise
