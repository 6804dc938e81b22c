#include "tools/trace/report/steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/trace/report/distribution.h"

namespace slipstream::report {

std::string_view NameOf(Part part) {
  constexpr std::string_view kNames[kParts] = {
      "copies", "synchronizes", "allocator", "launches", "other_calls", "another_thread_in_calls", "outside_of_calls"};
  return kNames[static_cast<size_t>(part)];
}

namespace {

// Of the measured steps, those across one of `holes` get this use. False: that would be all of them, so none does.
bool LeaveOut(std::span<const Interval> holes, StepUse use, std::vector<Step>* steps) {
  // Of all that begin before a moment, how far the longest one goes.
  std::vector<Interval> sorted(holes.begin(), holes.end());
  std::sort(sorted.begin(), sorted.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  for (size_t i = 1; i < sorted.size(); ++i) sorted[i].end = std::max(sorted[i].end, sorted[i - 1].end);
  size_t left = 0;
  std::vector<Step*> hit;
  for (Step& step : *steps) {
    if (step.use != StepUse::kMeasured) continue;
    const auto behind = std::lower_bound(sorted.begin(), sorted.end(), step.end,
                                         [](const Interval& hole, int64_t end) { return hole.start < end; });
    if (behind != sorted.begin() && std::prev(behind)->end >= step.start) {
      hit.push_back(&step);
    } else {
      ++left;
    }
  }
  if (left == 0) return hit.empty();
  for (Step* const step : hit) step->use = use;
  return true;
}

}  // namespace

Chosen ChooseSteps(std::span<const Interval> drops, std::span<const Interval> unwatched, std::vector<Step>* steps) {
  std::vector<int64_t> times;
  for (const Step& step : *steps) times.push_back(step.time());
  const int64_t median = DistributionOf(std::move(times)).median;
  size_t warm_up = std::min<size_t>(10, steps->size() / 4);
  while (warm_up > 0 && (*steps)[warm_up - 1].time() <= 2 * median) --warm_up;
  for (size_t i = 0; i < warm_up; ++i) (*steps)[i].use = StepUse::kWarmUp;
  return {.drops_everywhere = !LeaveOut(drops, StepUse::kDropped, steps),
          .unwatched_everywhere = !LeaveOut(unwatched, StepUse::kUnwatched, steps)};
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
