#include "tools/compare/runs/step_difference.h"

#include <algorithm>
#include <cmath>

#include "tools/compare/blocks.h"
#include "tools/compare/ratio.h"
#include "tools/compare/student_t.h"

namespace slipstream::compare {
namespace {

double MeanOf(const std::vector<int64_t>& times, size_t from, size_t count) {
  double sum = 0;
  for (size_t i = from; i < from + count; ++i) sum += static_cast<double>(times[i]);
  return sum / static_cast<double>(count);
}

struct Sample {
  double mean = 0;
  double variance_of_mean = 0;
  double degrees = 0;
};

// Of the logarithms.
Sample SampleOf(const std::vector<double>& means) {
  const auto count = static_cast<double>(means.size());
  std::vector<double> logs;
  Sample sample;
  for (const double mean : means) {
    logs.push_back(std::log(std::max(mean, 1.0)));
    sample.mean += logs.back() / count;
  }
  double squares = 0;
  for (const double value : logs) squares += (value - sample.mean) * (value - sample.mean);
  sample.degrees = count - 1;
  sample.variance_of_mean = squares / sample.degrees / count;
  return sample;
}

// Welch and Satterthwaite: never fewer than the smaller sample has by itself.
size_t Degrees(const Sample& a, const Sample& b) {
  const double least = std::min(a.degrees, b.degrees);
  const double sum = a.variance_of_mean + b.variance_of_mean;
  if (!(sum > 0)) return static_cast<size_t>(least);
  const double of_a = a.variance_of_mean / sum;
  const double of_b = b.variance_of_mean / sum;
  return static_cast<size_t>(std::max(least, std::floor(1 / (of_a * of_a / a.degrees + of_b * of_b / b.degrees))));
}

}  // namespace

std::vector<double> BlockMeans(const std::vector<int64_t>& times) {
  const size_t blocks = std::min(kBlocks, times.size() / kLeastInBlock);
  std::vector<double> means;
  if (blocks < kLeastBlocks) return means;
  size_t at = 0;
  for (size_t i = 0; i < blocks; ++i) {
    const size_t count = times.size() / blocks + (i < times.size() % blocks ? 1 : 0);
    means.push_back(MeanOf(times, at, count));
    at += count;
  }
  return means;
}

StepDifference CompareSteps(const std::vector<int64_t>& first, const std::vector<int64_t>& second) {
  StepDifference difference;
  difference.first = MeanOf(first, 0, first.size());
  difference.second = MeanOf(second, 0, second.size());
  const std::vector<double> of_first = BlockMeans(first);
  const std::vector<double> of_second = BlockMeans(second);
  difference.first_blocks = of_first.size();
  difference.second_blocks = of_second.size();
  if (of_first.empty() || of_second.empty()) return difference;
  const Sample a = SampleOf(of_first);
  const Sample b = SampleOf(of_second);
  difference.has_interval = true;
  difference.degrees = Degrees(a, b);
  const double half =
      StudentQuantile(kConfidence, difference.degrees) * std::sqrt(a.variance_of_mean + b.variance_of_mean);
  // The means of all steps are not the means of the logarithms: what is claimed lies in the interval in any case.
  difference.low = std::min(difference.first * std::expm1(b.mean - a.mean - half), difference.difference());
  difference.high = std::max(difference.first * std::expm1(b.mean - a.mean + half), difference.difference());
  difference.different = difference.low > 0 || difference.high < 0;
  return difference;
}

}  // namespace slipstream::compare
