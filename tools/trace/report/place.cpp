#include "tools/trace/report/place.h"

#include "tools/trace/run/names.h"

namespace slipstream::report {

std::optional<Place> ReadPlace(trace_db::DatabaseReader* reader, int64_t site) {
  run::Names names(reader);
  const run::Line& line = names.LineOf(site);
  if (!line.known()) return std::nullopt;
  return Place{.file = line.file, .line = line.line, .function = line.function};
}

}  // namespace slipstream::report
