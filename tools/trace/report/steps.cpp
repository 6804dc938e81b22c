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
  const Holes sorted(holes);
  size_t left = 0;
  std::vector<Step*> hit;
  for (Step& step : *steps) {
    if (step.use != StepUse::kMeasured) continue;
    if (sorted.Touch(step.start, step.end)) {
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

Holes::Holes(std::span<const Interval> holes) : holes_(holes.begin(), holes.end()) {
  std::sort(holes_.begin(), holes_.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  for (size_t i = 1; i < holes_.size(); ++i) holes_[i].end = std::max(holes_[i].end, holes_[i - 1].end);
}

bool Holes::Touch(int64_t start, int64_t end) const {
  const auto behind = std::lower_bound(holes_.begin(), holes_.end(), end,
                                       [](const Interval& hole, int64_t until) { return hole.start < until; });
  return behind != holes_.begin() && std::prev(behind)->end >= start;
}

bool IsSlow(int64_t time, const Distribution& of) {
  constexpr size_t kLeast = 4;
  return of.count >= kLeast && 2 * time > 3 * of.median && time - of.median > 3 * (of.median - of.p10);
}

Chosen ChooseSteps(std::span<const Interval> drops, std::span<const Interval> unwatched, std::vector<Step>* steps) {
  std::vector<int64_t> times;
  for (const Step& step : *steps) {
    if (step.use != StepUse::kUnfinished) times.push_back(step.time());
  }
  if (times.empty()) {
    for (Step& step : *steps) {
      step.use = StepUse::kMeasured;
      times.push_back(step.time());
    }
  }
  const int64_t median = DistributionOf(std::move(times)).median;
  size_t warm_up = std::min<size_t>(10, steps->size() / 4);
  while (warm_up > 0 && (*steps)[warm_up - 1].time() <= 2 * median) --warm_up;
  for (size_t i = 0; i < warm_up; ++i) {
    if ((*steps)[i].use == StepUse::kMeasured) (*steps)[i].use = StepUse::kWarmUp;
  }
  return {.drops_everywhere = !LeaveOut(drops, StepUse::kDropped, steps),
          .unwatched_everywhere = !LeaveOut(unwatched, StepUse::kUnwatched, steps)};
}

bool ChooseByBacklog(std::vector<Step>* steps) {
  constexpr int64_t kSeen = 20;
  constexpr size_t kLeast = 5;
  const Step* before = nullptr;
  std::vector<Step*> measured;
  for (Step& step : *steps) {
    const int64_t idle_from = before != nullptr ? before->end + before->backlog : step.start;
    step.work_time = std::max<int64_t>(0, step.end + step.backlog - std::max(step.start, idle_from));
    before = &step;
    if (step.use == StepUse::kMeasured) measured.push_back(&step);
  }
  int64_t time = 0;
  int64_t grown = 0;
  size_t kept = 0;  // of the last ones
  for (size_t i = measured.size(); i-- > 0;) {
    time = trace_db::Sum(time, measured[i]->time());
    grown = trace_db::Sum(grown, measured[i]->work_time - measured[i]->time());
    if (kSeen * grown <= time) kept = measured.size() - i;
  }
  if (kept == measured.size()) return true;
  if (kept < kLeast || 4 * kept < measured.size()) return false;
  for (size_t i = 0; i < measured.size() - kept; ++i) measured[i]->use = StepUse::kAhead;
  return true;
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
