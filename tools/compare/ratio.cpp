#include "tools/compare/ratio.h"

#include <algorithm>
#include <cmath>

#include "tools/compare/student_t.h"

namespace slipstream::compare {
namespace {

// A pair this many times further from the median than the pairs typically are is pointed out. 1.4826 makes the median
// distance a standard deviation, for normal figures.
constexpr double kFar = 5 * 1.4826;
constexpr size_t kLeastForFar = 5;

double HalfWidth(double deviation, size_t pairs, double rounding) {
  return StudentQuantile(kConfidence, pairs - 1) * deviation / std::sqrt(static_cast<double>(pairs)) + rounding;
}

// The fewest pairs whose interval is as narrow as is aimed at.
std::optional<size_t> PairsForAim(double deviation, double rounding) {
  const double aim = std::log1p(kAimedWidth);
  const auto narrow = [&](size_t pairs) { return HalfWidth(deviation, pairs, rounding) <= aim; };
  if (!narrow(kMostPairs)) return std::nullopt;
  size_t low = kLeastPairs - 1;  // not enough
  size_t high = kMostPairs;      // enough
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    (narrow(middle) ? high : low) = middle;
  }
  return high;
}

std::vector<size_t> FarPairs(const std::vector<double>& logs) {
  std::vector<size_t> far;
  if (logs.size() < kLeastForFar) return far;
  const double middle = SpreadOf(logs).median;
  std::vector<double> distances;
  for (const double value : logs) distances.push_back(std::abs(value - middle));
  const double typical = SpreadOf(distances).median;
  for (size_t i = 0; i < logs.size(); ++i) {
    if (typical > 0 && distances[i] > kFar * typical) far.push_back(i);
  }
  return far;
}

}  // namespace

double SpeedRatio(const FigurePair& pair, bool higher_is_better) {
  return higher_is_better ? pair[1].value / pair[0].value : pair[0].value / pair[1].value;
}

Estimate EstimateRatio(const std::vector<FigurePair>& pairs, bool higher_is_better) {
  Estimate estimate;
  estimate.pairs = pairs.size();
  if (pairs.empty()) return estimate;
  const auto count = static_cast<double>(pairs.size());
  std::vector<double> logs;
  double mean = 0;
  double rounding = 0;
  for (const FigurePair& pair : pairs) {
    logs.push_back(std::log(SpeedRatio(pair, higher_is_better)));
    mean += logs.back() / count;
    // The worst that rounding can do, to every pair alike: a program rounds the same figure the same way each time.
    for (const Figure& figure : pair) rounding += figure.rounding / figure.value / count;
  }
  estimate.ratio = std::exp(mean);
  estimate.median = std::exp(SpreadOf(logs).median);
  if (pairs.size() < kLeastPairs) return estimate;

  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  const double half = HalfWidth(deviation, pairs.size(), rounding);
  estimate.has_interval = true;
  estimate.low = std::exp(mean - half);
  estimate.high = std::exp(mean + half);
  estimate.different = estimate.low > 1 || estimate.high < 1;
  // Further out than the interval ends, so that chance hides it in 1 - kPower of all cases only.
  const double reach = StudentQuantile(2 * kPower - 1, pairs.size() - 1) * deviation / std::sqrt(count);
  estimate.seen = std::expm1(half + reach);
  estimate.pairs_for_aim = PairsForAim(deviation, rounding);
  estimate.coarse = 2 * rounding > half;
  estimate.far = FarPairs(logs);
  return estimate;
}

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.median = median, .min = values.front(), .max = values.back()};
}

}  // namespace slipstream::compare
