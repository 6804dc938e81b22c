#include "tools/report/steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/report/distribution.h"

namespace slipstream::report {

std::string_view NameOf(Part part) {
  constexpr std::string_view kNames[kParts] = {
      "copies", "synchronizes", "allocator", "launches", "other_calls", "another_thread_in_calls", "outside_of_calls"};
  return kNames[static_cast<size_t>(part)];
}

bool ChooseSteps(std::span<const Interval> drops, std::vector<Step>* steps) {
  std::vector<int64_t> times;
  for (const Step& step : *steps) times.push_back(step.time());
  const int64_t median = DistributionOf(std::move(times)).median;
  size_t warm_up = std::min<size_t>(10, steps->size() / 4);
  while (warm_up > 0 && (*steps)[warm_up - 1].time() <= 2 * median) --warm_up;
  for (size_t i = 0; i < warm_up; ++i) (*steps)[i].use = StepUse::kWarmUp;

  // Of all drops that begin before a moment, how far the longest one goes.
  std::vector<Interval> sorted(drops.begin(), drops.end());
  std::sort(sorted.begin(), sorted.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  for (size_t i = 1; i < sorted.size(); ++i) sorted[i].end = std::max(sorted[i].end, sorted[i - 1].end);
  bool any = false;
  for (Step& step : *steps) {
    if (step.use == StepUse::kWarmUp) continue;
    const auto behind = std::lower_bound(sorted.begin(), sorted.end(), step.end,
                                         [](const Interval& drop, int64_t end) { return drop.start < end; });
    const bool hit = behind != sorted.begin() && std::prev(behind)->end >= step.start;
    if (hit) step.use = StepUse::kDropped;
    any = any || !hit;
  }
  if (any || steps->empty()) return true;
  for (Step& step : *steps) {
    if (step.use == StepUse::kDropped) step.use = StepUse::kMeasured;
  }
  return false;
}

std::vector<Interval> MeasuredTime(std::span<const Step> steps) {
  std::vector<Interval> covered;
  for (const Step& step : steps) {
    if (step.use != StepUse::kMeasured || step.end <= step.start) continue;
    if (!covered.empty() && step.start <= covered.back().end) {
      covered.back().end = std::max(covered.back().end, step.end);
    } else {
      covered.push_back({step.start, step.end});
    }
  }
  return covered;
}

}  // namespace slipstream::report
