#include "tools/trace/report/place.h"

namespace slipstream::report {

std::optional<Place> ReadPlace(trace_db::DatabaseReader* reader, int64_t site) {
  if (site == 0 || !reader->HasTable("SLIPSTREAM_SITES")) return std::nullopt;
  trace_db::Question row(*reader, "SELECT file, line, function FROM SLIPSTREAM_SITES WHERE siteId = ?");
  if (!row.Bind(1, site).Next()) return std::nullopt;
  Place place;
  place.file = row.Text(0);
  place.line = row.NumberIfKnown(1);
  place.function = row.Text(2);
  return place;
}

}  // namespace slipstream::report
