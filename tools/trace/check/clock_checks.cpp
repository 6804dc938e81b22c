// Readings of clocks that cannot all be right.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "tools/text/text.h"
#include "tools/trace/check/findings.h"
#include "tools/trace/db/bounded.h"

namespace slipstream::trace_check {
namespace {

using trace_db::BoundedTime;
using trace_db::DatabaseReader;
using trace_db::Question;

// CLOCK_MONOTONIC runs at most 500 ppm faster or slower than the hardware's clock (adjtimex(2)); twice that is wrong.
constexpr int64_t kDriftPart = 1000;

struct Reading {
  int64_t before = 0;
  int64_t after = 0;
  int64_t other = 0;
};

// Of two clocks that were read `after - before` ns apart at most, in the order in which they were.
bool Disagree(const Reading& first, const Reading& next) {
  const int64_t least = next.before - first.after;
  const int64_t most = next.after - first.before;
  const int64_t other = next.other - first.other;
  return other < least - least / kDriftPart - 1 || other > most + most / kDriftPart + 1;
}

void CheckReadings(DatabaseReader* reader, const char* sql, const std::string& key, const std::string& of,
                   ByProcess* processes) {
  struct Counts {
    uint64_t back = 0;
    uint64_t disagree = 0;
    std::optional<Reading> last;
  };
  std::map<int64_t, Counts> all;
  Question row(*reader, sql);
  while (row.Next()) {
    Counts& counts = all[row.Number(0)];
    const Reading reading = {BoundedTime(row.Number(1)), BoundedTime(row.Number(2)), row.Number(3)};
    if (reading.after < reading.before) ++counts.back;
    if (counts.last) {
      if (reading.before < counts.last->before) {
        ++counts.back;
      } else if (std::abs(reading.other / 4 - counts.last->other / 4) < (int64_t{1} << 60) &&
                 Disagree(*counts.last, reading)) {
        ++counts.disagree;
      }
    }
    counts.last = reading;
  }
  for (auto& [process, counts] : all) {
    const auto check = processes->find(process);
    if (check == processes->end()) continue;
    Say(counts.back, key + "_went_back",
        Count(counts.back, "reading of " + of + " is before the one before it", "readings of " + of + " go back"),
        &check->second.contradicts);
    Say(counts.disagree, key + "_disagree",
        Count(counts.disagree, "reading of " + of + " does not agree with the one before it",
              "readings of " + of + " do not agree with those before them"),
        &check->second.contradicts);
  }
}

}  // namespace

// The wall clock may be set; that is noted, and times do not depend on it within a host.
void CheckClocks(DatabaseReader* reader, ByProcess* processes) {
  CheckReadings(reader,
                "SELECT processId, start, \"end\", monotonicRawNs FROM SLIPSTREAM_CLOCKS ORDER BY processId, rowid",
                "clock", "the host's clocks", processes);
  CheckReadings(reader,
                "SELECT processId, start, \"end\", deviceNs FROM SLIPSTREAM_DEVICE_CLOCKS ORDER BY processId, rowid",
                "device_clock", "the device's clock", processes);
  Question late(*reader, "SELECT processId, lateRecords FROM SLIPSTREAM_PROCESSES WHERE lateRecords > 0");
  while (late.Next()) {
    const auto check = processes->find(late.Number(0));
    if (check == processes->end()) continue;
    const auto count = static_cast<uint64_t>(late.Number(1));
    // A thread may be stopped between the end of a call and its record.
    Say(count, "late", Count(count, "record came late, behind later ones", "records came late, behind later ones"),
        &check->second.notes);
  }
  Question moved(*reader,
                 "SELECT p.processId, h.wallMovedNs FROM SLIPSTREAM_HOSTS h JOIN SLIPSTREAM_PROCESSES p USING (hostId) "
                 "WHERE h.wallMovedNs > 1000000");
  while (moved.Next()) {
    const auto check = processes->find(moved.Number(0));
    if (check == processes->end()) continue;
    Say(1, "wall_clock_set",
        "the wall clock of its host was set by " + text::HumanTime(static_cast<uint64_t>(moved.Number(1))) +
            "; times within the host do not depend on it",
        &check->second.notes);
  }
}

}  // namespace slipstream::trace_check
