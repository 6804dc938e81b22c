#include "tools/trace/report/place.h"

namespace slipstream::report {

std::optional<Place> PlaceOf(run::Names* names, int64_t site) {
  const run::Line& line = names->LineOf(site);
  if (!line.known()) return std::nullopt;
  return Place{.file = line.file, .line = line.line, .function = line.function};
}

}  // namespace slipstream::report
