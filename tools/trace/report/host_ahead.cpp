#include "tools/trace/report/host_ahead.h"

#include <algorithm>

#include "tools/trace/report/distribution.h"

namespace slipstream::report {

int64_t AheadTimes::all_went_on() const {
  int64_t sum = 0;
  for (const int64_t time : went_on) AddTo(&sum, time);
  return sum;
}

void AheadTimes::Add(const AheadTimes& other) {
  for (size_t i = 0; i < kHostStates; ++i) AddTo(&went_on[i], other.went_on[i]);
  for (size_t i = 0; i < kSkippedBy; ++i) AddTo(&by[i], other.by[i]);
  AddTo(&waited_later, other.waited_later);
  AddTo(&added, other.added);
}

void HostAhead::Skipped(int64_t until, SkippedBy by) {
  if (until <= until_) return;
  if (held_.empty() || held_.back().by != by) {
    held_.push_back({until, by});
  } else {
    held_.back().until = until;
  }
  until_ = until;
}

void HostAhead::PutDown(int64_t from, int64_t to, BySkipped* by) const {
  for (const Held& held : held_) {
    if (from >= to) return;
    if (held.until <= from) continue;
    const int64_t end = std::min(to, held.until);
    AddTo(&(*by)[static_cast<size_t>(held.by)], end - from);
    from = end;
  }
}

int64_t HostAhead::Ahead(int64_t from, int64_t to, BySkipped* by) {
  to = std::min(to, until_);
  int64_t sum = 0;
  while (first_ < measured_.size() && measured_[first_].end <= from) ++first_;
  while (!held_.empty() && held_.front().until <= from) held_.pop_front();
  for (size_t i = first_; i < measured_.size() && measured_[i].start < to; ++i) {
    const int64_t begin = std::max(from, measured_[i].start);
    const int64_t end = std::min(to, measured_[i].end);
    if (begin >= end) continue;
    AddTo(&sum, end - begin);
    if (by != nullptr) PutDown(begin, end, by);
  }
  return sum;
}

void HostAhead::Add(const Call& call) {
  if (!begun_) {
    begun_ = true;
    now_ = until_ = call.start;
  }
  // What lies inside another call is that one's.
  const int64_t start = std::max(call.start, now_);
  AddTo(&times_.went_on[kHostOutside], Ahead(now_, start, &times_.by));
  const int64_t ahead = Ahead(start, call.end, call.waits ? nullptr : &times_.by);
  AddTo(call.waits ? &times_.waited_later : &times_.went_on[static_cast<size_t>(call.kind)], ahead);
  if (call.lost > ahead) {
    // All of it is measured, or only what is ahead is taken off.
    const bool measured = first_ < measured_.size() && measured_[first_].start <= start;
    if (measured) AddTo(&times_.added, call.lost - ahead);
  }
  now_ = std::max(now_, call.end);
}

}  // namespace slipstream::report
