#include "tools/compare/ratio.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/compare/student_t.h"

namespace slipstream::compare {
namespace {

// A pair this many times further from the median than the pairs typically are is pointed out. 1.4826 makes the median
// distance a standard deviation, for normal figures.
constexpr double kFar = 5 * 1.4826;
constexpr size_t kLeastForFar = 5;

// Logarithms of ratios.
struct Band {
  double middle = 0;
  double low = 0;
  double high = 0;
};

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double DeviationOf(const std::vector<double>& values) {
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double HalfOfStudent(double deviation, size_t pairs, double confidence) {
  return StudentQuantile(confidence, pairs - 1) * deviation / std::sqrt(static_cast<double>(pairs));
}

Band StudentBand(const std::vector<double>& logs, double confidence) {
  const double mean = MeanOf(logs);
  const double half = HalfOfStudent(DeviationOf(logs), logs.size(), confidence);
  return {mean, mean - half, mean + half};
}

// The means of every two values, a value with itself among them, in order: their median is Hodges' and Lehmann's
// estimate, and an interval of Wilcoxon's ends at two of them.
Band RanksBand(const std::vector<double>& logs, double confidence) {
  std::vector<double> means;
  means.reserve(logs.size() * (logs.size() + 1) / 2);
  for (size_t i = 0; i < logs.size(); ++i) {
    for (size_t j = i; j < logs.size(); ++j) means.push_back((logs[i] + logs[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  const size_t beyond = RanksBeyond(logs.size(), confidence);
  return {SpreadOf(means).median, means[beyond], means[means.size() - 1 - beyond]};
}

// The fewest pairs, from kLeastPairs to kMostPairs, that are enough.
template <typename Enough>
std::optional<size_t> FewestPairs(const Enough& enough) {
  if (!enough(kMostPairs)) return std::nullopt;
  size_t low = kLeastPairs - 1;
  size_t high = kMostPairs;
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

// How much further out than the end of the interval a difference must lie to be seen in kPower of all comparisons.
double Reach(double deviation, size_t pairs) { return HalfOfStudent(deviation, pairs, 2 * kPower - 1); }

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

size_t RanksBeyond(size_t count, double confidence) {
  const double most = (1 - confidence) / 2;
  const auto n = static_cast<double>(count);
  if (count > kMostExactRanks) {
    const double deviation = std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
    constexpr size_t kNormal = 10000;  // degrees of freedom: as good as the normal distribution
    const double edge = n * (n + 1) / 4 - StudentQuantile(confidence, kNormal) * deviation - 0.5;
    return edge > 0 ? static_cast<size_t>(edge) : 0;
  }
  // Of all 2^count choices of signs, the share in which the ranks of one sign add up to each sum.
  std::vector<double> share(count * (count + 1) / 2 + 1, 0.0);
  share[0] = 1;
  for (size_t rank = 1; rank <= count; ++rank) {
    for (size_t sum = share.size(); sum-- > 0;) {
      share[sum] = (share[sum] + (sum >= rank ? share[sum - rank] : 0)) / 2;
    }
  }
  double below = 0;
  size_t beyond = 0;
  while (below + share[beyond] <= most) below += share[beyond++];
  return beyond == 0 ? 0 : beyond - 1;
}

Estimate EstimateRatio(const std::vector<FigurePair>& pairs, bool higher_is_better, double confidence) {
  Estimate estimate;
  estimate.pairs = pairs.size();
  estimate.confidence = confidence;
  if (pairs.empty()) return estimate;
  const size_t count = pairs.size();
  std::vector<double> logs;
  double rounding = 0;
  for (const FigurePair& pair : pairs) {
    logs.push_back(std::log(SpeedRatio(pair, higher_is_better)));
    // The worst that rounding can do, to every pair alike: a program rounds the same figure the same way each time.
    for (const Figure& figure : pair) rounding += figure.rounding / figure.value / static_cast<double>(count);
  }
  estimate.ratio = std::exp(MeanOf(logs));
  estimate.median = std::exp(SpreadOf(logs).median);
  if (count < kLeastPairs) return estimate;

  const Band band = count < kLeastForRanks ? StudentBand(logs, confidence) : RanksBand(logs, confidence);
  estimate.has_interval = true;
  estimate.ratio = std::exp(band.middle);
  estimate.low = std::exp(band.low - rounding);
  estimate.high = std::exp(band.high + rounding);
  estimate.different = estimate.low > 1 || estimate.high < 1;
  // The deviation for which Student's interval would be as wide: what more pairs would do to either is about the same.
  const double half = std::max(band.high - band.middle, band.middle - band.low);
  const double deviation = half / HalfOfStudent(1, count, confidence);
  estimate.deviation = deviation;
  estimate.rounding = rounding;
  estimate.seen = std::expm1(half + rounding + Reach(deviation, count));
  const auto width = [&](size_t n) { return HalfOfStudent(deviation, n, confidence) + rounding; };
  estimate.pairs_for_aim = FewestPairs([&](size_t n) { return width(n) <= std::log1p(kAimedWidth); });
  for (size_t i = 0; i < kWorthSeeing.size(); ++i) {
    estimate.pairs_to_see[i] =
        FewestPairs([&](size_t n) { return width(n) + Reach(deviation, n) <= std::log1p(kWorthSeeing[i]); });
  }
  estimate.coarse = rounding > half;
  estimate.far = FarPairs(logs);
  return estimate;
}

const char* NameOf(Slower slower) {
  switch (slower) {
    case Slower::kShown:
      return "slower";
    case Slower::kNot:
      return "not_slower";
    case Slower::kUnknown:
      break;
  }
  return "cannot_be_told";
}

Slower WhetherSlower(double low, double high, double limit) {
  if (low > limit) return Slower::kShown;
  return high <= limit ? Slower::kNot : Slower::kUnknown;
}

Slower WhetherSlower(const Estimate& estimate, double limit) {
  if (!estimate.has_interval) return Slower::kUnknown;
  return WhetherSlower(1 / estimate.high - 1, 1 / estimate.low - 1, limit);
}

std::optional<size_t> PairsToTell(const Estimate& estimate, double limit) {
  if (!estimate.has_interval) return std::nullopt;
  const double distance = std::abs(std::log(estimate.ratio) + std::log1p(limit));
  return FewestPairs([&](size_t n) {
    return HalfOfStudent(estimate.deviation, n, estimate.confidence) + estimate.rounding +
               Reach(estimate.deviation, n) <=
           distance;
  });
}

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.median = median, .min = values.front(), .max = values.back()};
}

}  // namespace slipstream::compare
