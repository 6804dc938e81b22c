#include <algorithm>

#include "tools/compare/text.h"
#include "tools/text/json_text.h"

namespace slipstream::compare {
namespace {

using text::Json;
using text::OrNull;

Json SideJson(const Comparison& comparison, size_t index) {
  const Side& side = comparison.sides[index];
  Json values = Json::array();
  Json walls = Json::array();
  std::vector<double> figures;
  for (const PairOfRuns& pair : comparison.pairs) {
    figures.push_back(pair.runs[index].figure.value);
    values.push_back(figures.back());
    walls.push_back(pair.runs[index].wall_seconds);
  }
  return {{"name", side.name},
          {"detail", side.detail},
          {"policy", OrNull(side.policy)},
          {"policy_file", OrNull(side.file)},
          {"runs", comparison.runs[index]},
          {"figures", std::move(values)},
          {"median", figures.empty() ? Json(nullptr) : Json(SpreadOf(figures).median)},
          {"wall_seconds", std::move(walls)},
          {"cuda_calls", side.counted && comparison.runs[index] != 0 ? Json(side.calls) : Json(nullptr)}};
}

Json EstimateJson(const Estimate& estimate) {
  if (estimate.pairs == 0) return nullptr;
  Json to_see = Json::array();
  for (size_t i = 0; i < kWorthSeeing.size(); ++i) {
    to_see.push_back({{"difference", kWorthSeeing[i]}, {"pairs", OrNull(estimate.pairs_to_see[i])}});
  }
  const auto if_known = [&](const auto& value) { return estimate.has_interval ? Json(value) : Json(nullptr); };
  return {{"value", estimate.ratio},
          {"low", if_known(estimate.low)},
          {"high", if_known(estimate.high)},
          {"confidence", if_known(estimate.confidence)},
          {"different", if_known(estimate.different)},
          {"median", estimate.median},
          {"difference_seen_four_in_five", if_known(estimate.seen)},
          {"pairs_for_one_percent", OrNull(estimate.pairs_for_aim)},
          {"pairs_to_see", if_known(to_see)}};
}

Json LimitJson(const Comparison& comparison) {
  if (!comparison.fail_if_slower) return nullptr;
  const double limit = *comparison.fail_if_slower;
  const Slower slower = WhetherSlower(comparison.estimate, limit);
  const std::optional<size_t> pairs = PairsToTell(comparison.estimate, limit);
  return {{"limit", limit},
          {"verdict", NameOf(slower)},
          {"pairs_to_tell", slower == Slower::kUnknown ? OrNull(pairs) : Json(nullptr)}};
}

Json ResultsJson(const MatchResult& results) {
  Json shown = Json::array();
  for (const OutputDifference& difference : results.shown) {
    shown.push_back({{"stream", difference.standard_error ? "stderr" : "stdout"},
                     {"line", difference.line},
                     {"first", difference.first},
                     {"second", OrNull(difference.second)},
                     {"runs", difference.runs}});
  }
  const char* const verdict =
      results.differences != 0 ? "differ" : (results.can_be_told() ? "same" : "cannot_be_checked");
  return {{"verdict", verdict},
          {"numbers", results.numbers},
          {"repeating", results.repeating},
          {"lines_of_words", results.words},
          {"different", results.differences},
          {"differences", std::move(shown)},
          {"output_cut", results.cut}};
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison, int exit_status) {
  Json pairs = Json::array();
  for (size_t i = 0; i < comparison.pairs.size(); ++i) {
    const PairOfRuns& pair = comparison.pairs[i];
    const std::vector<size_t>& far = comparison.estimate.far;
    pairs.push_back(
        {{"first", comparison.sides[pair.first].name},
         {"speed_ratio", SpeedRatio({pair.runs[0].figure, pair.runs[1].figure}, comparison.higher_is_better)},
         {"far", std::find(far.begin(), far.end(), i) != far.end()}});
  }
  Json failures = Json::array();
  for (const Failure& failure : comparison.failures) {
    failures.push_back({{"side", comparison.sides[failure.side].name},
                        {"pair", failure.pair == 0 ? Json(nullptr) : Json(failure.pair)},
                        {"what", failure.what},
                        {"last_lines", failure.last_lines}});
  }
  const bool is_metric = comparison.ruler == Ruler::kMetric;
  const Json json = {{"schema", kCompareSchema},
                     {"outcome", NameOf(OutcomeOf(comparison))},
                     {"exit_status", exit_status},
                     {"command", comparison.command},
                     {"measured", NameOf(comparison.ruler)},
                     {"unit", is_metric ? Json(nullptr) : Json("s")},
                     {"metric", is_metric ? Json(comparison.metric) : Json(nullptr)},
                     {"of_several", is_metric ? Json(NameOf(comparison.pick)) : Json(nullptr)},
                     {"higher_is_better", comparison.higher_is_better},
                     {"step_line", OrNull(comparison.step_line)},
                     {"why_no_steps", OrNull(comparison.no_steps)},
                     {"asked_pairs", comparison.asked_pairs == 0 ? Json(nullptr) : Json(comparison.asked_pairs)},
                     {"warm_ups", comparison.warm_ups},
                     {"seed", comparison.seed},
                     {"stopped", OrNull(comparison.stopped)},
                     {"sides", Json::array({SideJson(comparison, 0), SideJson(comparison, 1)})},
                     {"pairs", std::move(pairs)},
                     {"speed_ratio", EstimateJson(comparison.estimate)},
                     {"whole_command", comparison.whole ? EstimateJson(*comparison.whole) : Json(nullptr)},
                     {"fail_if_slower", LimitJson(comparison)},
                     {"results", ResultsJson(comparison.results)},
                     {"failures", std::move(failures)},
                     {"notes", comparison.notes}};
  return text::JsonText(json);
}

}  // namespace slipstream::compare
