#include "tools/trace/check/counter_check.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/db/schema.h"

namespace slipstream::trace_check {
namespace {

using text::WithThousands;
using trace_db::DatabaseReader;
using trace_db::kOwnCounters;
using trace_db::kRuntime;
using trace_db::Question;

constexpr size_t kFigureCount = 4;
constexpr std::array<const char*, kFigureCount> kFigures = {"calls", "errors", "bytes", "timeNs"};
constexpr size_t kTime = 3;

using Figures = std::array<uint64_t, kFigureCount>;

struct Line {
  bool counted = false;
  Figures least = {};
  Figures most = {};
  Figures traced = {};
};
struct Lines {
  std::map<std::tuple<int64_t, int64_t, int64_t>, Line> all;  // by process, kind and name
  std::set<std::pair<int64_t, int64_t>> counted;              // process and kind, of which the file has totals

  Line& Of(int64_t process, int64_t kind, int64_t name) { return all[{process, kind, name}]; }
};

uint64_t CountIn(const Question& row, int column) {
  return static_cast<uint64_t>(std::max<int64_t>(0, row.Number(column)));
}

// What the counters say. Two functions may have one name: in CUPTI's list they are one.
void ReadCounters(DatabaseReader* reader, Lines* lines, std::map<int64_t, CounterCheck>* checks) {
  Question row(*reader,
               "SELECT processId, kind, nameId, calls, errors, bytes, timeNs, callsAtMost, errorsAtMost, bytesAtMost, "
               "timeNsAtMost FROM SLIPSTREAM_COUNTERS");
  while (row.Next()) {
    CounterCheck& check = (*checks)[row.Number(0)];
    if (row.IsNull(2)) {
      lines->counted.emplace(row.Number(0), row.Number(1));
      if (row.Number(1) == trace_db::kCountedCall) {
        check.why_not.clear();
        check.counted = CountIn(row, 3);
      }
      const uint64_t later = CountIn(row, 7);
      check.while_ending += later - std::min(later, CountIn(row, 3));
      continue;
    }
    Line& line = lines->Of(row.Number(0), row.Number(1), row.Number(2));
    line.counted = true;
    for (size_t i = 0; i < kFigureCount; ++i) {
      line.least[i] += CountIn(row, 3 + static_cast<int>(i));
      line.most[i] += CountIn(row, 3 + static_cast<int>(kFigureCount + i));
    }
  }
}

void ReadSums(DatabaseReader* reader, const std::string& sql, int64_t kind, Lines* lines) {
  Question row(*reader, sql);
  while (row.Next()) {
    Line& line = lines->Of(row.Number(0), kind, row.Number(1));
    for (size_t i = 0; i < kFigureCount; ++i) line.traced[i] += CountIn(row, 2 + static_cast<int>(i));
  }
}

// What the records add up to. A hooked call has a number. What asks for the last error is no failure, and neither is
// "not ready".
void ReadTrace(DatabaseReader* reader, Lines* lines) {
  if (reader->HasTable(kRuntime.name)) {
    ReadSums(
        reader,
        "SELECT c.processId, r.nameId, count(*), sum(r.returnValue NOT IN (0, 600) AND n.value NOT LIKE "
        "'cuda%LastError%'), sum(min(max(c.bytes, 0), 1 << 44)), sum(r.\"end\" - r.start) FROM SLIPSTREAM_CALLS c JOIN "
        "CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId JOIN StringIds n ON n.id = r.nameId "
        "WHERE c.callNumber IS NOT NULL GROUP BY c.processId, r.nameId",
        trace_db::kCountedCall, lines);
  }
  ReadSums(reader,
           "SELECT processId, decisionId, count(*), 0, sum(min(max(bytes, 0), 1 << 44)), sum(min(max(timeNs, 0), 1 << "
           "44)) FROM SLIPSTREAM_DECISION_EVENTS GROUP BY "
           "processId, decisionId",
           trace_db::kCountedDecision, lines);
}

// Why a process has no totals, in the order of what is sure.
void ReadProcesses(DatabaseReader* reader, std::map<int64_t, CounterCheck>* checks) {
  Question row(*reader,
               "SELECT processId, dropped + missingRecords + skippedRecords, complete, endReason, missingChunks + "
               "malformedChunks, givenUpRecords, EXISTS (SELECT 1 FROM SLIPSTREAM_PAUSES x WHERE x.processId = "
               "p.processId) FROM SLIPSTREAM_PROCESSES p");
  while (row.Next()) {
    CounterCheck& check = (*checks)[row.Number(0)];
    check.known_missing = CountIn(row, 1);
    check.why_not = "the process counts nothing, or an older slipstream recorded it";
    if (row.Number(2) == 0) {
      check.why_not = "the process was killed or still runs, and its totals are not in the file";
    } else if (row.Text(3) != "finished") {
      check.why_not = "the recording ended before the process did";
    } else if (row.Number(5) != 0) {
      check.why_not = "older records were given up for newer ones";
    } else if (row.Number(6) != 0) {
      check.why_not = "the recording was paused for a part of the run";
    } else if (row.Number(4) != 0) {
      check.why_not = "they were in a part of the file that is damaged";
    }
  }
}

void Differ(const Line& line, size_t figure, const std::string& name, bool is_decision, CounterCheck* check) {
  const uint64_t traced = line.traced[figure];
  const bool few = traced < line.least[figure];
  if (!few && traced <= line.most[figure]) return;
  check->differences.push_back({.name = name,
                                .figure = kFigures[figure],
                                .is_decision = is_decision,
                                .counted = few ? line.least[figure] : line.most[figure],
                                .in_trace = traced});
}

}  // namespace

std::map<int64_t, CounterCheck> CheckCounters(DatabaseReader* reader) {
  std::map<int64_t, CounterCheck> checks;
  if (!reader->HasTable(kOwnCounters.name) || !reader->HasColumn("SLIPSTREAM_CALLS", "callNumber")) return checks;
  Lines lines;
  ReadProcesses(reader, &checks);
  ReadCounters(reader, &lines, &checks);
  if (lines.counted.empty()) return checks;  // all calls need not be read for that
  ReadTrace(reader, &lines);
  std::map<int64_t, uint64_t> missing;
  for (const auto& [key, line] : lines.all) {
    if (line.counted) missing[std::get<0>(key)] += line.least[0] - std::min(line.least[0], line.traced[0]);
  }
  Question name(*reader, "SELECT value FROM StringIds WHERE id = ?");
  for (const auto& [key, line] : lines.all) {
    const auto& [process, kind, id] = key;
    CounterCheck& check = checks[process];
    // What has no counter of its own (more decisions than there is room for) cannot be held against one.
    const bool is_decision = kind == trace_db::kCountedDecision;
    if (!lines.counted.contains({process, kind}) || (is_decision && !line.counted)) continue;
    const uint64_t all_missing = missing[process];
    check.unexplained = all_missing - std::min(all_missing, check.known_missing);
    const bool some_missing = line.traced[0] < line.least[0];
    name.Again();
    const std::string text = name.Bind(1, id).Next() ? std::string(name.Text(0)) : "";
    // Which of the records that are missing were these cannot be told: all together, they may not be more.
    if (!some_missing || check.unexplained != 0) Differ(line, 0, text, is_decision, &check);
    if (some_missing || line.traced[0] > line.most[0]) continue;
    // Of calls that are all there. Where some ended with the recording and others are missing, which ones is not known.
    if (line.least[0] != line.most[0] && check.known_missing != 0) continue;
    for (size_t i = 1; i < kFigureCount; ++i) {
      const bool is_measured = i != kTime || line.most[i] != 0;
      if (is_measured) Differ(line, i, text, is_decision, &check);
    }
  }
  return checks;
}

std::string DifferenceText(const CounterDifference& difference, const CounterCheck& of) {
  const std::string what = difference.figure == "calls" && difference.is_decision ? "times" : difference.figure;
  return difference.name + ": " + WithThousands(difference.counted) + " " + (what == "timeNs" ? "ns" : what) +
         " counted, " + WithThousands(difference.in_trace) + " in the trace, " + WithThousands(of.known_missing) +
         (of.known_missing == 1 ? " record" : " records") + " known to be missing";
}

std::string FormatCounterWarnings(DatabaseReader* reader) {
  const std::map<int64_t, CounterCheck> checks = CheckCounters(reader);
  std::string warnings;
  Question row(*reader, "SELECT spoolFile FROM SLIPSTREAM_PROCESSES WHERE processId = ?");
  for (const auto& [process, check] : checks) {
    if (check.differences.empty()) continue;
    row.Again();
    const std::string file = row.Bind(1, process).Next() ? std::string(row.Text(0)) : "";
    for (const CounterDifference& difference : check.differences) {
      warnings +=
          "  WARNING: " + policy::Escape(file) + ": " + policy::Escape(DifferenceText(difference, check)) + "\n";
    }
  }
  return warnings;
}

}  // namespace slipstream::trace_check
