#include "tools/trace/report/wall_sweep.h"

#include <algorithm>
#include <utility>

namespace slipstream::report {
namespace {

// Calls at foreign lines that make a phase of a long pause.
constexpr uint64_t kForeignCalls = 2;
// Or, where no line tells, so many calls more than ordinary pauses have at most, twice.
constexpr uint64_t kMoreCalls = 8;
// Of an evaluation.
constexpr uint64_t kManyCalls = 8;

WallPart PartOf(StepUse use) {
  switch (use) {
    case StepUse::kMeasured:
      return WallPart::kMeasured;
    case StepUse::kWarmUp:
      return WallPart::kWarmUp;
    case StepUse::kDropped:
      return WallPart::kDropped;
    case StepUse::kUnwatched:
      return WallPart::kUnwatched;
    case StepUse::kUnfinished:
      return WallPart::kUnfinished;
    case StepUse::kAhead:
      return WallPart::kAhead;
  }
  return WallPart::kMeasured;
}

}  // namespace

std::string_view NameOf(WallPart part) {
  constexpr std::string_view kNames[kWallParts] = {"start_up",
                                                   "steps_warm_up",
                                                   "steps_measured",
                                                   "steps_with_dropped_records",
                                                   "steps_with_devices_not_recorded",
                                                   "steps_with_unknown_end",
                                                   "steps_with_host_running_ahead",
                                                   "between_steps",
                                                   "evaluation_perhaps",
                                                   "checkpoint_perhaps",
                                                   "other_phases",
                                                   "after_last_step",
                                                   "no_steps_known",
                                                   "recording_paused"};
  return kNames[static_cast<size_t>(part)];
}

WallPart PhaseOf(const PhaseCalls& calls, bool found, uint64_t most_calls) {
  const bool is_phase = found || calls.foreign >= kForeignCalls || calls.calls >= kMoreCalls + 2 * most_calls;
  if (!is_phase) return WallPart::kBetween;
  if (calls.launches != 0) {
    return calls.foreign != 0 && calls.calls >= kManyCalls ? WallPart::kEvaluation : WallPart::kOther;
  }
  const bool devices_know = calls.to_host != 0 || calls.to_device != 0;
  const int64_t to_host = devices_know ? calls.to_host : calls.called_to_host;
  const int64_t to_device = devices_know ? calls.to_device : calls.called_to_device;
  return to_host > to_device ? WallPart::kCheckpoint : WallPart::kOther;
}

WallSweep::WallSweep(const WallSpan& span)
    : paused_(span.paused),
      steps_(span.steps),
      found_(span.found),
      begin_(span.begin),
      end_(std::max(span.begin, span.last)) {
  LayOut(span);
  spent_ = begin_;
}

// More than twice as long as half of the pauses are, and than half of a step. What lies between two found steps was cut
// off from one as a phase.
int64_t WallSweep::LongPause(const WallSpan& span) {
  if (span.found) return 0;
  std::vector<int64_t> pauses;
  std::vector<int64_t> times;
  for (size_t i = 0; i < span.steps.size(); ++i) {
    times.push_back(span.steps[i].time());
    if (i != 0) pauses.push_back(std::max<int64_t>(0, span.steps[i].start - span.steps[i - 1].end));
  }
  return std::max(2 * DistributionOf(std::move(pauses)).median, DistributionOf(std::move(times)).median / 2);
}

void WallSweep::Put(int64_t start, int64_t end, WallPart part) {
  const auto piece = [&](int64_t until, WallPart of) {
    if (start < until) pieces_.push_back({.start = start, .end = until, .part = of});
    start = std::max(start, until);
  };
  for (const Interval& pause : paused_) {
    if (pause.end <= start || pause.start >= end) continue;
    piece(pause.start, part);
    piece(std::min(pause.end, end), WallPart::kPaused);
  }
  piece(end, part);
}

void WallSweep::LayOut(const WallSpan& span) {
  if (!span.has_steps) {
    const int64_t first = std::clamp(span.first, begin_, end_);
    Put(begin_, first, WallPart::kStartUp);
    Put(first, end_, WallPart::kNoSteps);
    return;
  }
  const int64_t long_from = LongPause(span);
  const Holes drops(span.drops);
  int64_t at = begin_;
  for (size_t i = 0; i < span.steps.size(); ++i) {
    const Step& step = span.steps[i];
    const int64_t start = std::clamp(step.start, at, end_);
    const int64_t end = std::clamp(step.end, start, end_);
    const size_t before = pieces_.size();
    if (i == 0) {
      Put(at, start, WallPart::kStartUp);
    } else if (at < start) {
      AddPause(at, start, drops, long_from);
    }
    before_step_.push_back(i != 0 && pieces_.size() != before ? pieces_.size() : 0);
    if (start < end) pieces_.push_back({.start = start, .end = end, .part = PartOf(step.use)});
    ++sums_[static_cast<size_t>(PartOf(step.use))].count;
    at = end;
  }
  Put(at, end_, WallPart::kAfter);
}

void WallSweep::AddPause(int64_t start, int64_t end, const Holes& drops, int64_t long_from) {
  // Beside a pause of the recording lie parts of steps.
  const bool is_paused = std::any_of(paused_.begin(), paused_.end(),
                                     [&](const Interval& pause) { return pause.start < end && pause.end > start; });
  if (is_paused) {
    Put(start, end, WallPart::kOther);
    return;
  }
  Piece& pause = pieces_.emplace_back(Piece{.start = start, .end = end, .part = WallPart::kBetween});
  if (drops.Touch(start, end)) {
    // A step may be missing in it.
    pause.part = WallPart::kOther;
  } else if (end - start > long_from) {
    pause.part = WallPart::kOther;
    phases_.emplace_back();
    pause.phase = phases_.size();
  }
}

WallSweep::Piece* WallSweep::At(int64_t start) {
  while (now_ < pieces_.size() && pieces_[now_].end <= start) {
    ++now_;
    most_calls_ = std::max(most_calls_, std::exchange(pause_calls_, 0));
  }
  return now_ < pieces_.size() && pieces_[now_].start <= start ? &pieces_[now_] : nullptr;
}

void WallSweep::Count(const Call& call) {
  const Piece* const piece = At(call.start);
  if (piece == nullptr) return;
  if (piece->phase == 0) {
    if (!call.of_step_thread) return;
    if (piece->part == WallPart::kBetween) ++pause_calls_;
    if (IsStep(piece->part) || piece->part == WallPart::kBetween) usual_.insert(call.site);
    return;
  }
  PhaseCalls& phase = phases_[piece->phase - 1];
  if (call.kind == CallKind::kLaunch) ++phase.launches;
  if (call.copied == Direction::kToHost) AddTo(&phase.called_to_host, call.bytes);
  if (call.copied == Direction::kToDevice) AddTo(&phase.called_to_device, call.bytes);
  if (!call.of_step_thread) return;
  ++phase.calls;
  if (call.site != 0 && usual_.count(call.site) == 0) ++phase.foreign;
}

void WallSweep::Add(const Call& call) {
  Count(call);
  if (!call.of_step_thread) return;
  // Of calls within one another, the time belongs to the outer one.
  if (call.start > spent_) Spend(spent_, call.start, call.site, /*before=*/true);
  if (call.end > spent_) Spend(std::max(spent_, call.start), call.end, call.site, /*before=*/false);
  spent_ = std::max(spent_, call.end);
  Close(call.start);
}

void WallSweep::AddDeviceCopy(int64_t start, Direction direction, int64_t bytes) {
  const Piece* const piece = At(start);
  if (piece == nullptr || piece->phase == 0) return;
  PhaseCalls& phase = phases_[piece->phase - 1];
  if (direction == Direction::kToHost) AddTo(&phase.to_host, bytes);
  if (direction == Direction::kToDevice) AddTo(&phase.to_device, bytes);
}

void WallSweep::Spend(int64_t from, int64_t to, int64_t site, bool before) {
  while (spending_ < pieces_.size() && pieces_[spending_].end <= from) ++spending_;
  for (size_t i = spending_; i < pieces_.size() && pieces_[i].start < to; ++i) {
    if (IsStep(pieces_[i].part)) continue;
    const int64_t time = std::min(to, pieces_[i].end) - std::max(from, pieces_[i].start);
    SiteTime& of = open_[i][site];
    (before ? of.before : of.in) += time;
  }
}

void WallSweep::Close(int64_t until) {
  for (; closed_ < pieces_.size() && pieces_[closed_].end <= until; ++closed_) {
    Piece& piece = pieces_[closed_];
    if (piece.phase != 0) piece.part = PhaseOf(phases_[piece.phase - 1], found_, most_calls_);
    Sum& sum = sums_[static_cast<size_t>(piece.part)];
    sum.time += piece.end - piece.start;
    if (!IsStep(piece.part)) ++sum.count;
    const auto times = open_.find(closed_);
    if (times == open_.end()) continue;
    for (const auto& [site, time] : times->second) {
      SiteTime& all = sites_[static_cast<size_t>(piece.part)][site];
      all.in += time.in;
      all.before += time.before;
    }
    open_.erase(times);
  }
}

void WallSweep::Finish() {
  Close(end_);
  for (size_t part = 0; part < kWallParts; ++part) {
    int64_t rest = sums_[part].time;
    Most most;
    for (const auto& [site, time] : sites_[part]) {
      const int64_t both = time.in + time.before;
      rest -= both;
      if (both > most.time) most = {.site = site, .before = time.before > time.in, .time = both};
    }
    if (most.time > 0 && most.time >= rest && most.site != 0) sums_[part].most = most;
  }
  TakePauses();
}

void WallSweep::TakePauses() {
  for (size_t i = 1; i < before_step_.size(); ++i) {
    const Step& step = steps_[i];
    const Step& last = steps_[i - 1];
    if (step.use != StepUse::kMeasured || last.use != StepUse::kMeasured) continue;
    const Piece* const pause = before_step_[i] != 0 ? &pieces_[before_step_[i] - 1] : nullptr;
    if (pause != nullptr && pause->part != WallPart::kBetween) continue;
    pauses_.push_back(pause != nullptr ? pause->end - pause->start : 0);
    paces_.push_back(step.start - last.start);
  }
}

}  // namespace slipstream::report
