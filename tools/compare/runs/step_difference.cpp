#include "tools/compare/runs/step_difference.h"

#include <algorithm>
#include <cmath>

#include "tools/compare/blocks.h"
#include "tools/compare/student_t.h"

namespace slipstream::compare {
namespace {

template <typename Value>
double MeanOf(const std::vector<Value>& values, size_t from, size_t count) {
  double sum = 0;
  for (size_t i = from; i < from + count; ++i) sum += static_cast<double>(values[i]);
  return sum / static_cast<double>(count);
}

// Sum of the products of every value's distance from the mean and that of the value `lag` behind it.
double Products(const std::vector<double>& values, size_t lag) {
  const double mean = MeanOf(values, 0, values.size());
  double sum = 0;
  for (size_t i = lag; i < values.size(); ++i) sum += (values[i] - mean) * (values[i - lag] - mean);
  return sum;
}

struct Sample {
  double mean = 0;      // of all steps
  double variance = 0;  // of that mean, relative to it
  double degrees = 0;
};

// Of blocks that are worth `effective` independent ones.
Sample SampleOf(double mean, const std::vector<double>& means, double effective) {
  const auto count = static_cast<double>(means.size());
  Sample sample = {.mean = std::max(mean, 1.0), .variance = 0, .degrees = effective - 1};
  // Blocks that depend on each other spread less around their own mean than around the true one: the expectation of the
  // sum of squares is count * variance * (1 - 1 / effective), and the mean's variance is variance / effective.
  sample.variance = Products(means, 0) / (count * sample.degrees) / (sample.mean * sample.mean);
  return sample;
}

// Welch and Satterthwaite: never fewer than the smaller sample has by itself.
size_t Degrees(const Sample& a, const Sample& b) {
  const double least = std::min(a.degrees, b.degrees);
  const double sum = a.variance + b.variance;
  if (!(sum > 0)) return static_cast<size_t>(least);
  const double of_a = a.variance / sum;
  const double of_b = b.variance / sum;
  return static_cast<size_t>(std::max(least, 1 / (of_a * of_a / a.degrees + of_b * of_b / b.degrees)));
}

}  // namespace

std::vector<double> BlockMeans(const std::vector<int64_t>& times) {
  const size_t length = std::max(kLeastInBlock, (times.size() + kMostBlocks - 1) / kMostBlocks);
  const size_t blocks = times.size() / length;
  std::vector<double> means;
  size_t at = 0;
  for (size_t i = 0; i < blocks; ++i) {
    const size_t count = times.size() / blocks + (i < times.size() % blocks ? 1 : 0);
    means.push_back(MeanOf(times, at, count));
    at += count;
  }
  return means;
}

double EffectiveBlocks(const std::vector<double>& means) {
  if (means.empty()) return 0;
  const auto count = static_cast<double>(means.size());
  const double squares = Products(means, 0);
  const double seen = squares > 0 ? Products(means, 1) / squares : 0;
  // The correlation of neighbors that is seen falls short of the true one, r, by (1 + 4 r) / n on average (Kendall,
  // "Note on bias in the estimation of autocorrelation", Biometrika 41, 1954), and has a standard error of about
  // sqrt((1 - r^2) / n) (Bartlett, 1946). Half of that is added: where it is underestimated, something is claimed that
  // is not so, and where it is overestimated, the interval is a little wide. A negative one is not believed.
  double r = seen + (1 + 4 * std::max(0.0, seen)) / count;
  if (r < 1) r += std::sqrt((1 - r * r) / count) / 2;
  r = std::clamp(r, 0.0, 1.0);
  // The variance of a mean of n values is that of one, times (1 + 2 sum of (1 - k / n) r^k) / n.
  double sum = 1;
  double power = 1;
  for (size_t lag = 1; lag < means.size(); ++lag) {
    power *= r;
    sum += 2 * (1 - static_cast<double>(lag) / count) * power;
  }
  return count / sum;
}

StepDifference CompareSteps(const std::vector<int64_t>& first, const std::vector<int64_t>& second, double floor) {
  StepDifference difference;
  difference.first = MeanOf(first, 0, first.size());
  difference.second = MeanOf(second, 0, second.size());
  difference.floor = floor;
  const std::vector<double> of_first = BlockMeans(first);
  const std::vector<double> of_second = BlockMeans(second);
  difference.first_blocks = of_first.size();
  difference.second_blocks = of_second.size();
  difference.first_effective = EffectiveBlocks(of_first);
  difference.second_effective = EffectiveBlocks(of_second);
  if (std::min(difference.first_effective, difference.second_effective) < kLeastEffective) return difference;
  const Sample a = SampleOf(difference.first, of_first, difference.first_effective);
  const Sample b = SampleOf(difference.second, of_second, difference.second_effective);
  difference.has_interval = true;
  difference.degrees = Degrees(a, b);
  difference.steps_half = StudentQuantile(kConfidence, difference.degrees) * std::sqrt(a.variance + b.variance);
  // Two independent reasons for a difference, each with what it comes to at most in kConfidence of all cases.
  const double half = std::hypot(difference.steps_half, std::log1p(floor));
  const double middle = std::log(b.mean / a.mean);
  difference.low_share = std::expm1(middle - half);
  difference.high_share = std::expm1(middle + half);
  difference.different = difference.low_share > 0 || difference.high_share < 0;
  return difference;
}

Slower WhetherSlower(const StepDifference& step, double limit) {
  return step.has_interval ? WhetherSlower(step.low_share, step.high_share, limit) : Slower::kUnknown;
}

std::optional<double> LengthToTell(const StepDifference& step, double limit) {
  if (!step.has_interval) return std::nullopt;
  // What the steps may add to the floor until the interval reaches the limit.
  const double distance = std::abs(std::log(step.second / step.first) - std::log1p(limit));
  const double floor = std::log1p(step.floor);
  if (distance <= floor) return std::nullopt;
  const double longer = step.steps_half * step.steps_half / (distance * distance - floor * floor);
  return std::max(1.0, longer);
}

}  // namespace slipstream::compare
