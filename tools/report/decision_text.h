// The engines' decisions by their names.
//
// Threading: an object belongs to one thread, as its reader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/trace_db/database_reader.h"

namespace slipstream::report {

// A line for people; empty: this build knows no such decision.
std::string_view DecisionMeaning(std::string_view name);

// That a call which waits by its name did not wait for the device.
bool MakesItReturn(std::string_view decision);

// Of StringIds, each asked for once.
class DecisionNames {
 public:
  explicit DecisionNames(trace_db::DatabaseReader* reader) : reader_(*reader) {}

  const std::string& NameOf(int64_t id) { return Of(id).name; }
  bool MakesItReturn(int64_t id) { return Of(id).makes_it_return; }

 private:
  struct Known {
    std::string name;
    bool makes_it_return = false;
  };
  const Known& Of(int64_t id);

  trace_db::DatabaseReader& reader_;
  std::unordered_map<int64_t, Known> known_;
};

}  // namespace slipstream::report
