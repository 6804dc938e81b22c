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
  AddTo(&waited_later, other.waited_later);
  AddTo(&added, other.added);
}

int64_t HostAhead::Ahead(int64_t from, int64_t to) {
  to = std::min(to, until_);
  int64_t sum = 0;
  while (first_ < measured_.size() && measured_[first_].end <= from) ++first_;
  for (size_t i = first_; i < measured_.size() && measured_[i].start < to; ++i) {
    AddTo(&sum, std::max<int64_t>(0, std::min(to, measured_[i].end) - std::max(from, measured_[i].start)));
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
  AddTo(&times_.went_on[kHostOutside], Ahead(now_, start));
  const int64_t ahead = Ahead(start, call.end);
  AddTo(call.waits ? &times_.waited_later : &times_.went_on[static_cast<size_t>(call.kind)], ahead);
  if (call.lost > ahead) {
    // All of it is measured, or only what is ahead is taken off.
    const bool measured = first_ < measured_.size() && measured_[first_].start <= start;
    if (measured) AddTo(&times_.added, call.lost - ahead);
  }
  now_ = std::max(now_, call.end);
}

}  // namespace slipstream::report
