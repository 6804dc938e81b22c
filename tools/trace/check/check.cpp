#include "tools/trace/check/check.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tools/text/text.h"
#include "tools/trace/check/counter_check.h"
#include "tools/trace/check/findings.h"
#include "tools/trace/db/bounded.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::trace_check {
namespace {

using text::WithThousands;
using trace_db::DatabaseReader;
using trace_db::Question;

struct Kind {
  const char* key;
  const char* name;
  const char* table;
  const char* sql;  // counts by process
};
constexpr Kind kKinds[] = {
    {"calls", "calls", "SLIPSTREAM_CALLS",
     "SELECT processId, count(*) FROM SLIPSTREAM_CALLS WHERE callNumber IS NOT NULL GROUP BY 1"},
    {"driver_calls", "calls of the driver that no hook saw, or inside others", "SLIPSTREAM_CALLS",
     "SELECT processId, count(*) FROM SLIPSTREAM_CALLS WHERE callNumber IS NULL GROUP BY 1"},
    {"decisions", "decisions", "SLIPSTREAM_DECISION_EVENTS",
     "SELECT processId, count(*) FROM SLIPSTREAM_DECISION_EVENTS GROUP BY 1"},
    {"kernels", "kernels", "SLIPSTREAM_DEVICE_WORK", "SELECT processId, kernels FROM SLIPSTREAM_DEVICE_WORK"},
    {"device_copies", "copies on devices", "SLIPSTREAM_DEVICE_WORK",
     "SELECT processId, copies FROM SLIPSTREAM_DEVICE_WORK"},
    {"device_sets", "sets on devices", "SLIPSTREAM_DEVICE_WORK", "SELECT processId, sets FROM SLIPSTREAM_DEVICE_WORK"},
    {"blocks", "blocks of memory got or given back", "SLIPSTREAM_ALLOCATIONS",
     "SELECT processId, count(*) FROM SLIPSTREAM_ALLOCATIONS GROUP BY 1"},
    {"memory", "readings of the pools", "SLIPSTREAM_MEMORY",
     "SELECT processId, count(*) FROM SLIPSTREAM_MEMORY GROUP BY 1"},
    {"ranges", "NVTX ranges and marks", "NVTX_EVENTS",
     "SELECT p.processId, count(*) FROM NVTX_EVENTS x JOIN SLIPSTREAM_PROCESSES p ON p.globalPid = (x.globalTid & "
     "~16777215) WHERE x.eventType != 75 AND x.textId IS NOT NULL GROUP BY 1"},
    {"steps", "steps", "SLIPSTREAM_STEPS", "SELECT processId, count(*) FROM SLIPSTREAM_STEPS GROUP BY 1"},
    {"marks", "marks", "SLIPSTREAM_MARKS", "SELECT processId, count(*) FROM SLIPSTREAM_MARKS GROUP BY 1"},
    {"threads", "threads", "SLIPSTREAM_THREADS",
     "SELECT processId, count(*) FROM SLIPSTREAM_THREADS WHERE thread != 0 GROUP BY 1"},
    {"lines", "lines of the program", "SLIPSTREAM_CALLS",
     "SELECT processId, count(DISTINCT siteId) FROM SLIPSTREAM_CALLS GROUP BY 1"},
    {"stacks", "stacks", "SLIPSTREAM_CALLS",
     "SELECT processId, count(DISTINCT stackId) + count(DISTINCT nativeStackId) FROM SLIPSTREAM_CALLS GROUP BY 1"},
    {"clock_readings", "readings of the clocks", "SLIPSTREAM_CLOCKS",
     "SELECT processId, count(*) FROM SLIPSTREAM_CLOCKS GROUP BY 1"},
    {"device_clock_readings", "readings of the device's clock", "SLIPSTREAM_DEVICE_CLOCKS",
     "SELECT processId, count(*) FROM SLIPSTREAM_DEVICE_CLOCKS GROUP BY 1"},
};

void ReadAmounts(DatabaseReader* reader, ByProcess* processes) {
  for (const Kind& kind : kKinds) {
    std::map<int64_t, uint64_t> counts;
    if (reader->HasTable(kind.table)) {
      for (Question row(*reader, kind.sql); row.Next();) {
        counts[row.Number(0)] = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(1)));
      }
    }
    for (auto& [process, check] : *processes) check.there.push_back({kind.key, kind.name, counts[process]});
  }
}

std::string NameOf(const Question& row) {
  std::string name = std::filesystem::path(row.Text(2)).filename().string();
  if (name.empty()) name = row.Text(1);
  if (row.IsNull(3)) return name;
  name += " (pid " + std::to_string(row.Number(3));
  if (!row.IsNull(4)) name += ", rank " + std::to_string(row.Number(4));
  return name + ")";
}

// What the file's end says: whether it is one, and why there.
void SayEnd(const Question& row, ProcessCheck* check) {
  const auto number = [&](int column) { return static_cast<uint64_t>(std::max<int64_t>(0, row.Number(column))); };
  const uint64_t left = number(6);
  if (left != 0) {
    Say(left, "left", WithThousands(left) + " bytes at its end: " + std::string(row.Text(7)), &check->lacks);
  } else if (row.Number(8) == 0) {
    Say(1, "killed", "its end: the process was killed or still runs, and its last moments may be missing",
        &check->lacks);
  } else if (row.Text(9) == "limit") {
    const std::string later = row.IsNull(16) ? "" : ": " + Count(number(16), "call", "calls");
    Say(1, "limit", "what came behind the size that its file may have (tracer.max_file)" + later, &check->lacks);
  } else if (row.Text(9) != "finished") {
    Say(1, "error", "what came behind an error in writing: errno " + std::to_string(row.Number(10)), &check->lacks);
  }
  const uint64_t chunks = number(11);
  Say(chunks, "damaged",
      Count(chunks, "chunk", "chunks") + " in " + WithThousands(number(12)) +
          " damaged bytes, with the names and lines "
          "in them",
      &check->lacks);
  Say(number(17), "given_up",
      Count(number(17), "record", "records") + " given up for newer ones, as tracer.keep wants it", &check->notes);
  Say(number(18), "paused",
      "the recording was paused, as tracer.window or `slipstream record` wanted it: " +
          Count(number(18), "time", "times"),
      &check->notes);
  Say(number(13), "missing_records", Count(number(13), "record", "records") + " in damaged or malformed parts",
      &check->lacks);
  Say(number(14), "malformed", Count(number(14), "chunk that is", "chunks that are") + " malformed", &check->lacks);
  Say(number(15), "newer", Count(number(15), "record or chunk", "records and chunks") + " of a newer slipstream",
      &check->lacks);
}

ByProcess ReadProcesses(DatabaseReader* reader) {
  ByProcess processes;
  Question row(*reader,
               "SELECT p.processId, p.spoolFile, p.executable, p.pid, p.rank, h.name, p.leftBytes, p.leftWhy, "
               "p.complete, p.endReason, p.endError, p.missingChunks, p.damagedBytes, p.missingRecords, "
               "p.malformedChunks, p.skippedRecords + p.skippedChunks, p.laterCalls, p.givenUpRecords, "
               "(SELECT count(*) FROM SLIPSTREAM_PAUSES x WHERE x.processId = p.processId) FROM SLIPSTREAM_PROCESSES p "
               "LEFT JOIN SLIPSTREAM_HOSTS h USING (hostId) ORDER BY p.processId");
  while (row.Next()) {
    ProcessCheck& check = processes[row.Number(0)];
    check.process = row.Number(0);
    check.spool = row.Text(1);
    check.name = NameOf(row);
    check.host = row.Text(5);
    SayEnd(row, &check);
  }
  return processes;
}

struct Dropped {
  uint64_t in_gaps = 0;
  uint64_t gaps = 0;
  int64_t first = 0;
  int64_t last = 0;
};

// By thread and span of time; those that a thread lost at its very end have no time.
void SayDropped(DatabaseReader* reader, ProcessCheck* check) {
  std::map<int64_t, Dropped> threads;
  Question gap(
      *reader,
      "SELECT thread, sum(count), count(*), min(start), max(\"end\") FROM SLIPSTREAM_DROPS WHERE processId = ? "
      "AND isDamage = 0 GROUP BY thread");
  for (gap.Bind(1, check->process); gap.Next();) {
    threads[gap.Number(0)] = {.in_gaps = static_cast<uint64_t>(trace_db::BoundedCount(gap.Number(1))),
                              .gaps = static_cast<uint64_t>(gap.Number(2)),
                              .first = trace_db::BoundedTime(gap.Number(3)),
                              .last = trace_db::BoundedTime(gap.Number(4))};
  }
  std::map<int64_t, std::string> names;
  std::map<int64_t, uint64_t> all;
  Question thread(*reader, "SELECT thread, tid, name, dropped FROM SLIPSTREAM_THREADS WHERE processId = ?");
  for (thread.Bind(1, check->process); thread.Next();) {
    names[thread.Number(0)] = "thread " + std::to_string(thread.Number(1)) +
                              (thread.Text(2).empty() ? "" : " " + std::string(thread.Text(2)));
    all[thread.Number(0)] = static_cast<uint64_t>(trace_db::BoundedCount(thread.Number(3)));
  }
  uint64_t said = 0;
  for (const auto& [number, dropped] : threads) {
    said += dropped.in_gaps;
    const std::string who = names.contains(number) ? names[number] : "threads that found no room, or devices";
    Say(dropped.in_gaps, "dropped",
        Count(dropped.in_gaps, "record", "records") + " of " + who + " from " + At(dropped.first) + " to " +
            At(dropped.last) + ", in " + Count(dropped.gaps, "gap", "gaps"),
        &check->lacks);
  }
  for (const auto& [number, dropped] : all) {
    const uint64_t in_gaps = threads.contains(number) ? threads[number].in_gaps : 0;
    if (dropped <= in_gaps) continue;
    said += dropped - in_gaps;
    Say(dropped - in_gaps, "dropped",
        Count(dropped - in_gaps, "record", "records") + " of " + names[number] + " at its end", &check->lacks);
  }
  Question whole(*reader, "SELECT dropped FROM SLIPSTREAM_PROCESSES WHERE processId = ?");
  const uint64_t dropped =
      whole.Bind(1, check->process).Next() ? static_cast<uint64_t>(trace_db::BoundedCount(whole.Number(0))) : 0;
  if (dropped > said) {
    Say(dropped - said, "dropped", Count(dropped - said, "record", "records") + " more were dropped", &check->lacks);
  }
  if (said > dropped) {
    Say(said - dropped, "dropped_sums",
        "its end says that " + WithThousands(dropped) + " records were dropped, and its gaps " + WithThousands(said),
        &check->contradicts);
  }
}

void SayRefused(DatabaseReader* reader, ProcessCheck* check) {
  Question row(*reader,
               "SELECT value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key = ? ORDER BY rowid DESC LIMIT 1");
  for (const tracer::RefusedFact& fact : tracer::kRefusedFacts) {
    row.Again();
    if (!row.Bind(1, check->process).Bind(2, fact.key).Next()) continue;
    const uint64_t count = std::strtoull(std::string(row.Text(0)).c_str(), nullptr, 10);
    Say(count, fact.key, Count(count, fact.one, fact.many), &check->lacks);
  }
}

void SayDevices(DatabaseReader* reader, ProcessCheck* check) {
  Question work(*reader, "SELECT unattributed FROM SLIPSTREAM_DEVICE_WORK WHERE processId = ?");
  if (!work.Bind(1, check->process).Next()) {
    Say(1, "devices", "what its devices did was not recorded (tracer.device)", &check->notes);
    return;
  }
  const auto stray = static_cast<uint64_t>(trace_db::BoundedCount(work.Number(0)));
  // Devices may be recorded while calls are not.
  Question pause(*reader, "SELECT 1 FROM SLIPSTREAM_PAUSES WHERE processId = ?");
  const bool was_paused = pause.Bind(1, check->process).Next();
  Say(stray, "work_without_call",
      Count(stray, "kernel, copy or set whose call is not in the trace",
            "kernels, copies and sets whose calls are not in the trace"),
      was_paused ? &check->notes : &check->lacks);
  Question periods(*reader, "SELECT count(*) FROM SLIPSTREAM_DEVICE_PERIODS WHERE processId = ?");
  if (periods.Bind(1, check->process).Next() && periods.Number(0) > 1) {
    const auto holes = static_cast<uint64_t>(periods.Number(0) - 1);
    Say(holes, "devices_interrupted",
        "what its devices did in " + Count(holes, "interruption", "interruptions") + " of recording them",
        &check->lacks);
  }
}

void SayCounters(const std::map<int64_t, CounterCheck>& counters, ProcessCheck* check) {
  const auto found = counters.find(check->process);
  if (found == counters.end() || !found->second.why_not.empty()) {
    const std::string why = found != counters.end() ? found->second.why_not : "the database is of an older slipstream";
    Say(1, "counters_not_known", "its records cannot be held against its counters: " + why, &check->notes);
  }
  if (found == counters.end()) return;
  const CounterCheck& of = found->second;
  if (of.why_not.empty()) check->counted = of.counted;
  for (const CounterDifference& difference : of.differences) {
    Say(1, "counters", DifferenceText(difference, of), &check->contradicts);
  }
  Say(of.while_ending, "while_ending",
      Count(of.while_ending, "call or decision was counted", "calls and decisions were counted") +
          " while the recording ended, and may be in the trace or not",
      &check->notes);
}

}  // namespace

std::string Count(uint64_t count, const std::string& one, const std::string& many) {
  return WithThousands(count) + " " + (count == 1 ? one : many);
}

std::string At(int64_t ns) {
  return ns < 0 ? "-" + text::HumanTime(static_cast<uint64_t>(-ns)) : text::HumanTime(static_cast<uint64_t>(ns));
}

void Say(uint64_t count, const std::string& key, const std::string& text, std::vector<Finding>* to) {
  if (count != 0) to->push_back({key, text, count});
}

bool Check::whole() const {
  return unreadable.empty() &&
         std::all_of(processes.begin(), processes.end(), [](const ProcessCheck& process) { return process.whole(); });
}

Check CheckTrace(DatabaseReader* reader) {
  ByProcess processes = ReadProcesses(reader);
  ReadAmounts(reader, &processes);
  const std::map<int64_t, CounterCheck> counters = CheckCounters(reader);
  for (auto& [process, check] : processes) {
    SayDropped(reader, &check);
    SayRefused(reader, &check);
    SayDevices(reader, &check);
    SayCounters(counters, &check);
  }
  CheckOrder(reader, &processes);
  CheckClocks(reader, &processes);
  Check result;
  for (auto& [process, check] : processes) result.processes.push_back(std::move(check));
  return result;
}

}  // namespace slipstream::trace_check
