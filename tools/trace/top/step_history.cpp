#include "tools/trace/top/step_history.h"

#include <algorithm>
#include <vector>

namespace slipstream::top {

void StepHistory::Add(uint64_t start_ns, uint64_t end_ns) {
  if (end_ns < start_ns) return;
  ++seen_;
  steps_.push_back({start_ns, end_ns});
  if (steps_.size() > kMost) steps_.pop_front();
}

std::optional<StepsView> StepHistory::Look() const {
  if (steps_.empty()) return std::nullopt;
  StepsView view;
  view.seen = seen_;
  view.of = std::min(steps_.size(), kStepsShown);
  view.last_ns = steps_.back().end - steps_.back().start;
  std::vector<uint64_t> times;
  for (size_t i = steps_.size() - view.of; i < steps_.size(); ++i) times.push_back(steps_[i].end - steps_[i].start);
  if (times.size() >= 2 * kTrendParts) {
    for (size_t i = 0; i < kTrendParts; ++i) {
      std::vector<uint64_t> part(times.begin() + static_cast<std::ptrdiff_t>(times.size() * i / kTrendParts),
                                 times.begin() + static_cast<std::ptrdiff_t>(times.size() * (i + 1) / kTrendParts));
      std::sort(part.begin(), part.end());
      view.trend_ns.push_back(part[part.size() / 2]);
    }
  }
  std::sort(times.begin(), times.end());
  view.median_ns = times[times.size() / 2];
  view.p95_ns = times[(times.size() * 95 + 99) / 100 - 1];  // nearest rank
  // What lies between two of them, as a validation does, counts.
  const uint64_t from = steps_[steps_.size() - view.of].start;
  const uint64_t to = steps_.back().end;
  if (to > from) view.per_second = static_cast<double>(view.of) * 1e9 / static_cast<double>(to - from);
  return view;
}

std::optional<double> StepHistory::Between(uint64_t from_ns, uint64_t to_ns) const {
  if (steps_.empty() || (steps_.front().start > from_ns && seen_ > steps_.size())) return std::nullopt;
  double sum = 0;
  for (auto step = steps_.rbegin(); step != steps_.rend() && step->end > from_ns; ++step) {
    const uint64_t start = std::max(step->start, from_ns);
    const uint64_t end = std::min(step->end, to_ns);
    if (end > start) sum += static_cast<double>(end - start) / static_cast<double>(step->end - step->start);
  }
  return sum;
}

}  // namespace slipstream::top
