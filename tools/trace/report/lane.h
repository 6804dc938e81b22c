// Tells what one thing (a thread, the copies of a device) is busy with over time, from intervals in the order of their
// starts. If intervals overlap, the time belongs to the one that came first, so every moment belongs to one of them or
// to none.
//
// Memory: the intervals that have not ended, less those that lie within others.
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>

namespace slipstream::report {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

template <typename Tag>
class Lane {
 public:
  // Not earlier than any before it, nor than any `now` before it.
  void Add(int64_t start, int64_t end, const Tag& tag) {
    const int64_t free_from = pieces_.empty() ? start : pieces_.back().until;
    if (end > free_from && end > start) pieces_.push_back({end, tag});
  }
  // What it is busy with; null: nothing. Times do not go back.
  const Tag* At(int64_t now) {
    while (!pieces_.empty() && pieces_.front().until <= now) pieces_.pop_front();
    return pieces_.empty() ? nullptr : &pieces_.front().tag;
  }
  // The next moment at which that changes, unless an interval is added; after At(now).
  int64_t NextChange() const { return pieces_.empty() ? kNever : pieces_.front().until; }

 private:
  struct Piece {
    int64_t until;
    Tag tag;
  };
  std::deque<Piece> pieces_;  // each begins where the one before it ends, the first one has begun
};

}  // namespace slipstream::report
