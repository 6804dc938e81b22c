// The engines' decisions by their names.
//
// Threading: an object belongs to one thread, as its reader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/trace/run/names.h"

namespace slipstream::report {

// Whether a call that waits by its name did not wait for the device.
bool MakesItReturn(std::string_view decision);

// Whether a synchronization did not wait for all work of its stream.
bool SkipsTheWait(std::string_view decision);

// Whether the work of a copy may be on another stream than its call names.
bool UsesOtherStreams(std::string_view decision);

// Of StringIds, each asked for once.
class DecisionNames {
 public:
  struct Known {
    std::string name;
    bool makes_it_return = false;
    bool skips_the_wait = false;
    bool uses_other_streams = false;
  };

  explicit DecisionNames(run::Names* names) : names_(*names) {}

  const Known& Of(int64_t id);
  const std::string& NameOf(int64_t id) { return Of(id).name; }
  bool MakesItReturn(int64_t id) { return Of(id).makes_it_return; }

 private:
  run::Names& names_;
  std::unordered_map<int64_t, Known> known_;
};

}  // namespace slipstream::report
