// Adds up the idle time of a device by the lines of the program: while a thread was in a call, to the line of that
// call; while none was, to the line of the call that came next and could end the idle time.
//
// Memory: a few numbers for each line.
// Threading: an object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/device_lines.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {

class IdleLines {
 public:
  void InCall(size_t site, CallKind kind, int64_t time) {
    if (time != 0) AddTo(&At(site)[static_cast<size_t>(kind)], time);
  }
  void Outside(int64_t time) { AddTo(&gap_, time); }
  // Of whatever thread: what was outside up to now lay before it.
  void CallBegins(size_t site) {
    if (gap_ != 0) AddTo(&At(site)[kHostOutside], std::exchange(gap_, 0));
  }
  // `host`: of kHostStates.
  int64_t Of(size_t site, size_t host) const { return site < sites_.size() ? sites_[site][host] : 0; }

 private:
  std::array<int64_t, kHostStates>& At(size_t site) {
    if (site >= sites_.size()) sites_.resize(site + 1);
    return sites_[site];
  }

  std::vector<std::array<int64_t, kHostStates>> sites_;
  int64_t gap_ = 0;  // outside, since the last call began
};

// What a number of a site stands for.
struct SiteKey {
  int64_t site = 0;  // siteId; 0: no line is known
  bool of_step_thread = true;
};

// By time, the most first. `idle`: of the device, by what the host was at; what no line has is an entry of its own.
std::vector<IdleLineReport> IdleLinesOf(run::Names* names, const IdleLines& lines,
                                        const std::array<int64_t, kHostStates>& idle, size_t sites,
                                        const std::function<SiteKey(size_t)>& key_of);

// By its siteId; 0: none.
LineReport LineOf(run::Names* names, const SiteKey& key);
// By file, line and function, those of the step thread first.
bool ComesFirst(const LineReport& a, const LineReport& b);

}  // namespace slipstream::report
