#include "tools/trace/db/step_cutter.h"

#include <utility>

namespace slipstream::trace_db {

std::optional<StepTime> StepCutter::Add(uint32_t site, int64_t start, int64_t end) {
  const bool begins = site == line_.site && visited_ != site;
  if (site != 0) visited_ = site;
  std::optional<StepTime> ended;
  if (begins) {
    ended = std::exchange(open_, StepTime{.start = start, .end = start});
    if (ended) {
      ended->end = start;
      ++steps_;
      calls_ += ended->calls;
    }
  }
  if (open_) {
    open_->end = end;
    ++open_->calls;
  }
  return ended;
}

std::optional<StepTime> StepCutter::Last() const {
  if (!open_ || steps_ == 0 || open_->calls * 2 * steps_ < calls_) return std::nullopt;
  return open_;
}

}  // namespace slipstream::trace_db
