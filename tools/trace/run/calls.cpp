#include "tools/trace/run/calls.h"

#include <algorithm>
#include <array>
#include <string>

#include "tools/trace/db/bounded.h"

namespace slipstream::run {

bool Calls::AreIn(trace_db::DatabaseReader* reader) {
  constexpr std::array<const char*, 5> kTables = {"SLIPSTREAM_CALLS", "SLIPSTREAM_DECISIONS", "SLIPSTREAM_SITES",
                                                  "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"};
  return std::all_of(kTables.begin(), kTables.end(), [&](const char* table) { return reader->HasTable(table); });
}

Calls::Calls(trace_db::DatabaseReader* reader, int64_t process, int64_t first, int64_t end)
    : row_(*reader,
           "SELECT r.start, r.\"end\", r.nameId, d.decisionId, c.siteId, c.thread, c.bytes, c.stream, "
           "c.correlationId, " +
               std::string(reader->HasColumn("SLIPSTREAM_CALLS", "siteIsBackward") ? "c.siteIsBackward" : "0") +
               " FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId "
               "LEFT JOIN SLIPSTREAM_DECISIONS d ON d.correlationId = c.correlationId WHERE c.processId = ?1 "
               "AND r.start >= ?2 AND r.start < ?3 ORDER BY r.start, r.\"end\" DESC") {
  row_.Bind(1, process).Bind(2, first).Bind(3, end);
}

bool Calls::Next() {
  if (!row_.Next()) return false;
  now_.start = trace_db::BoundedTime(row_.Number(0));
  now_.end = trace_db::BoundedEnd(now_.start, row_.Number(1));
  now_.function = row_.Number(2);
  now_.decision = row_.Number(3);
  now_.site = row_.Number(4);
  now_.thread = row_.Number(5);
  now_.bytes = trace_db::BoundedCount(row_.Number(6));
  now_.stream = row_.Number(7);
  now_.correlation = row_.Number(8);
  now_.site_is_backward = row_.Number(9) != 0;
  return true;
}

}  // namespace slipstream::run
