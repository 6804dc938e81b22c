#include "tools/compare/comparison.h"

#include <algorithm>

namespace slipstream::compare {

void MakeEstimate(Comparison* comparison) {
  std::vector<FigurePair> figures;
  for (const PairOfRuns& pair : comparison->pairs) figures.push_back({pair.runs[0].figure, pair.runs[1].figure});
  comparison->estimate = EstimateRatio(figures, comparison->higher_is_better);
  comparison->whole.reset();
  if (comparison->ruler != Ruler::kSteps) return;
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::array<RunFigures, 2>& runs = comparison->pairs[i].runs;
    figures[i] = {Figure{runs[0].wall_seconds}, Figure{runs[1].wall_seconds}};
  }
  comparison->whole = EstimateRatio(figures, /*higher_is_better=*/false);
}

Outcome OutcomeOf(const Comparison& comparison) {
  const auto fails = [&](size_t side) {
    return std::any_of(comparison.failures.begin(), comparison.failures.end(),
                       [side](const Failure& failure) { return failure.side == side; });
  };
  if (fails(0) && fails(1)) return Outcome::kFailsOnBoth;
  if (fails(0) || fails(1)) return Outcome::kFailsOnOne;
  if (comparison.results.differences != 0) return Outcome::kResultsDiffer;
  return comparison.estimate.has_interval ? Outcome::kCompared : Outcome::kTooFew;
}

const char* NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompared:
      return "compared";
    case Outcome::kResultsDiffer:
      return "results_differ";
    case Outcome::kFailsOnOne:
      return "fails_on_one_side";
    case Outcome::kFailsOnBoth:
      return "fails_on_both_sides";
    case Outcome::kTooFew:
      break;
  }
  return "too_few_pairs";
}

const char* NameOf(Ruler ruler) {
  switch (ruler) {
    case Ruler::kWall:
      return "wall";
    case Ruler::kSteps:
      return "steps";
    case Ruler::kMetric:
      break;
  }
  return "metric";
}

const char* NameOf(Pick pick) {
  switch (pick) {
    case Pick::kLast:
      return "last";
    case Pick::kMedian:
      return "median";
    case Pick::kMean:
      break;
  }
  return "mean";
}

}  // namespace slipstream::compare
