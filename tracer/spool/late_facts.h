// A queue of facts about a process that are found while its recording runs, for the spool's writer.
//
// Threading: any thread; a lock that is held briefly. Not for frequent events.
// Errors: out of memory throws; the caller catches.
#pragma once

#include <iterator>
#include <mutex>
#include <utility>

#include "tracer/spool/process_facts.h"

namespace slipstream::tracer {

class LateFacts {
 public:
  void Say(Facts facts) {
    const std::lock_guard guard(mutex_);
    facts_.insert(facts_.end(), std::make_move_iterator(facts.begin()), std::make_move_iterator(facts.end()));
  }
  // All that is there, in the order in which it came.
  Facts Take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(facts_, {});
  }

 private:
  std::mutex mutex_;
  Facts facts_;
};

}  // namespace slipstream::tracer
