#include "tools/cli/time_left.h"

#include <algorithm>

#include "tools/text/text.h"

namespace slipstream::cli {

std::optional<double> SecondsLeft(uint64_t done, uint64_t all, uint64_t elapsed_ns) {
  constexpr uint64_t kLeastNs = 1'000'000'000;
  constexpr uint64_t kLeastShare = 100;
  if (done == 0 || done > all || elapsed_ns < kLeastNs || done < all / kLeastShare) return std::nullopt;
  return static_cast<double>(elapsed_ns) / 1e9 * static_cast<double>(all - done) / static_cast<double>(done);
}

std::string TimeLeft::At(uint64_t done, uint64_t all, uint64_t now_ns) {
  if (!begun_ || done < last_ || all != all_) {
    begun_ = true;
    all_ = all;
    first_ = done;
    first_ns_ = now_ns;
  }
  last_ = done;
  if (done > all) return "";
  const std::optional<double> seconds = SecondsLeft(done - first_, all - first_, now_ns - first_ns_);
  // "0 s left" would be there for a while.
  return seconds ? ", about " + text::AboutTime(std::max(*seconds, 1.0)) + " left" : "";
}

}  // namespace slipstream::cli
