#include "tools/trace/db/step_cutter.h"

#include <utility>

#include "tools/trace/db/bounded.h"

namespace slipstream::trace_db {

StepCutter::StepCutter(const StepFinder::Found& line) : line_(line) {
  for (const uint32_t own : line.loop.own) lines_[own] = {.is_own = true};
  for (const uint32_t often : line.loop.often) lines_[often] = {};
}

std::optional<StepTime> StepCutter::Add(uint32_t site, int64_t start, int64_t end, uint64_t copied) {
  const bool begins = site == line_.site && visited_ != site;
  const bool visits = site != 0 && visited_ != site;
  if (site != 0) visited_ = site;
  std::optional<StepTime> ended;
  if (begins) {
    ended = std::exchange(open_, StepTime{.start = start, .end = start});
    if (ended) {
      ended->end = start;
      ended = WithoutForeign(*ended, /*is_last=*/false);
      ++steps_;
      calls_ += ended->calls;
    }
    ++begun_;
    own_ = 0;
    run_.reset();
    foreign_.clear();
  }
  if (open_) {
    if (visits && !lines_.empty()) Visit(site);
    if (const auto at = foreign_.find(site); at != foreign_.end()) at->second.copied += copied;
    open_->end = end;
    ++open_->calls;
  }
  return ended;
}

void StepCutter::Visit(uint32_t site) {
  if (const auto line = lines_.find(site); line != lines_.end()) {
    run_.reset();
    if (line->second.is_own && line->second.step != begun_) ++own_;
    line->second.step = begun_;
    return;
  }
  auto at = foreign_.find(site);
  if (at == foreign_.end() && IsOften(site)) {
    run_.reset();
    return;
  }
  if (!run_) run_ = Run{.from = open_->end, .calls = open_->calls, .own = own_};
  if (at == foreign_.end()) {
    if (foreign_.size() == kMostForeign) return;
    at = foreign_.emplace(site, Foreign{.run = *run_}).first;
  }
  ++at->second.visits;
}

bool StepCutter::IsOften(uint32_t site) {
  auto at = recent_.find(site);
  if (at == recent_.end()) {
    if (recent_.size() == kMostRecent) return false;
    at = recent_.try_emplace(site).first;
  }
  Recent& recent = at->second;
  if (recent.count != 0 && recent.steps[(recent.count - 1) % kOften] == begun_) return false;  // in this step, too
  recent.steps[recent.count++ % kOften] = begun_;
  if (recent.count < kOften) return false;
  if (begun_ - recent.steps[recent.count % kOften] >= (kOften - 1) * kSeldom) return false;
  lines_[site] = {};
  recent_.erase(at);
  return true;
}

StepTime StepCutter::WithoutForeign(StepTime step, bool is_last) const {
  const auto time = static_cast<int64_t>(static_cast<uint64_t>(step.end) - static_cast<uint64_t>(step.start));
  if (!is_last && 2 * BoundedTime(time) <= 3 * line_.loop.median_ns) return step;
  const Run* first = nullptr;
  for (const auto& [site, line] : foreign_) {
    // Behind the last step the loop has ended, and whatever comes is no part of it.
    const bool is_phase = is_last || line.visits >= kLoopVisits || line.copied >= kMuchCopied;
    if (!is_phase || line.run.own != own_) continue;
    if (first == nullptr || line.run.from < first->from) first = &line.run;
  }
  if (first == nullptr) return step;
  step.end = first->from;
  step.calls = first->calls;
  step.is_unfinished = true;
  return step;
}

std::optional<StepTime> StepCutter::Last() const {
  if (!open_) return std::nullopt;
  StepTime last = WithoutForeign(*open_, /*is_last=*/true);
  last.is_unfinished = true;
  if (steps_ == 0 || last.calls * 2 * steps_ < calls_) return std::nullopt;
  return last;
}

}  // namespace slipstream::trace_db
