#include "tools/trace/top/busy_time.h"

#include <algorithm>

namespace slipstream::top {

void BusyTime::Add(uint64_t start_ns, uint64_t end_ns) {
  if (end_ns <= start_ns) return;
  added_.push_back({start_ns, end_ns});
  if (added_.size() >= kMost) Settle(0);
}

void BusyTime::Settle(uint64_t oldest_ns) {
  const auto by_start = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  std::sort(added_.begin(), added_.end(), by_start);
  const auto middle = static_cast<std::ptrdiff_t>(all_.size());
  all_.insert(all_.end(), added_.begin(), added_.end());
  added_.clear();
  std::inplace_merge(all_.begin(), all_.begin() + middle, all_.end(), by_start);
  size_t kept = 0;
  for (const Interval& each : all_) {
    if (each.end < oldest_ns) continue;
    if (kept > 0 && each.start <= all_[kept - 1].end) {
      all_[kept - 1].end = std::max(all_[kept - 1].end, each.end);
    } else {
      all_[kept++] = each;
    }
  }
  all_.resize(kept);
  if (all_.size() <= kMost) return;
  const auto forgotten = static_cast<std::ptrdiff_t>(all_.size() - kMost);
  known_from_ = all_[static_cast<size_t>(forgotten)].start;
  all_.erase(all_.begin(), all_.begin() + forgotten);
}

uint64_t BusyTime::Within(uint64_t from_ns, uint64_t to_ns) const {
  uint64_t sum = 0;
  for (const Interval& each : all_) {
    const uint64_t start = std::max(each.start, from_ns);
    const uint64_t end = std::min(each.end, to_ns);
    if (end > start) sum += end - start;
  }
  return sum;
}

}  // namespace slipstream::top
