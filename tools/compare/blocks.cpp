#include "tools/compare/blocks.h"

#include <numeric>

#include "tools/compare/ratio.h"

namespace slipstream::compare {

double TypicalStep(const std::vector<double>& times) {
  const size_t length = times.size() / kBlocks;
  if (length < kLeastInBlock) {
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }
  std::vector<double> means;
  for (auto at = times.end() - static_cast<std::ptrdiff_t>(kBlocks * length); at != times.end();) {
    const auto end = at + static_cast<std::ptrdiff_t>(length);
    means.push_back(std::accumulate(at, end, 0.0) / static_cast<double>(length));
    at = end;
  }
  return SpreadOf(means).median;
}

}  // namespace slipstream::compare
