#include "tools/trace/report/distribution.h"

#include <algorithm>

namespace slipstream::report {
namespace {

// Rank ceil(percent / 100 * count), from 0.
size_t Rank(size_t percent, size_t count) { return (percent * count + 99) / 100 - 1; }

}  // namespace

Distribution DistributionOf(std::vector<int64_t> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.count = values.size();
  for (const int64_t value : values) AddTo(&result.total, value);
  result.min = values.front();
  result.p10 = values[Rank(10, values.size())];
  result.median = values[Rank(50, values.size())];
  result.p90 = values[Rank(90, values.size())];
  result.max = values.back();
  return result;
}

bool Differ(const Distribution& a, const Distribution& b) {
  const auto within = [](int64_t value, const Distribution& of) { return of.p10 <= value && value <= of.p90; };
  return !within(a.median, b) && !within(b.median, a);
}

size_t IndexOfMedian(const std::vector<int64_t>& values) {
  std::vector<int64_t> sorted = values;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(Rank(50, sorted.size()));
  std::nth_element(sorted.begin(), middle, sorted.end());
  return static_cast<size_t>(std::find(values.begin(), values.end(), *middle) - values.begin());
}

}  // namespace slipstream::report
