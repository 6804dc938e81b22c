// A line of the program that a time is put down to.
//
// Threading, errors: as the reader of the names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/trace/run/names.h"

namespace slipstream::report {

struct Place {
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  bool before = false;  // outside CUDA calls, right before one of that line; else in its calls
  int64_t time = 0;     // ns
};

// By its siteId, without a time; nothing: there is no such line.
std::optional<Place> PlaceOf(run::Names* names, int64_t site);

}  // namespace slipstream::report
