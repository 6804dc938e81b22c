// What cannot have happened as it is recorded.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/trace/check/findings.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/db/schema.h"

namespace slipstream::trace_check {
namespace {

using trace_db::DatabaseReader;
using trace_db::kRuntime;
using trace_db::Question;

ProcessCheck* Of(ByProcess* processes, int64_t process) {
  const auto found = processes->find(process);
  return found != processes->end() ? &found->second : nullptr;
}

// One count for each process, of a question with two columns.
void SayCounts(DatabaseReader* reader, const std::string& sql, const std::string& key, const std::string& one,
               const std::string& many, ByProcess* processes) {
  Question row(*reader, sql);
  while (row.Next()) {
    ProcessCheck* const check = Of(processes, row.Number(0));
    const auto count = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(1)));
    if (check != nullptr) Say(count, key, Count(count, one, many), &check->contradicts);
  }
}

// A hooked call inside another one of its thread is not recorded.
void CallsThatOverlap(DatabaseReader* reader, ByProcess* processes) {
  if (!reader->HasTable(kRuntime.name)) return;
  std::map<int64_t, uint64_t> counts;
  std::pair<int64_t, int64_t> thread(-1, -1);
  int64_t until = 0;
  Question row(
      *reader,
      "SELECT c.processId, c.thread, r.start, r.\"end\" FROM SLIPSTREAM_CALLS c JOIN "
      "CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId WHERE c.callNumber IS NOT NULL ORDER "
      "BY c.processId, c.thread, r.start, r.\"end\"");
  while (row.Next()) {
    const std::pair now(row.Number(0), row.Number(1));
    if (now == thread && row.Number(2) < until) ++counts[now.first];
    until = now == thread ? std::max(until, row.Number(3)) : row.Number(3);
    thread = now;
  }
  for (const auto& [process, count] : counts) {
    if (ProcessCheck* const check = Of(processes, process)) {
      Say(count, "calls_overlap",
          Count(count, "call begins before the one before it on its thread has ended",
                "calls begin before the one before them on their thread has ended"),
          &check->contradicts);
    }
  }
}

void EndsBeforeStarts(DatabaseReader* reader, ByProcess* processes) {
  std::string rows;
  const auto add = [&](const char* table, const char* process) {
    if (!reader->HasTable(table)) return;
    rows += std::string(rows.empty() ? "" : " UNION ALL ") + "SELECT " + process + " AS process FROM " + table +
            " x WHERE x.\"end\" < x.start";
  };
  constexpr char kByPid[] = "(SELECT processId FROM SLIPSTREAM_PROCESSES p WHERE p.globalPid = x.globalPid)";
  add(kRuntime.name, "(SELECT processId FROM SLIPSTREAM_CALLS c WHERE c.correlationId = x.correlationId)");
  for (const char* const table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                                  "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"}) {
    add(table, kByPid);
  }
  add("NVTX_EVENTS", "(SELECT processId FROM SLIPSTREAM_PROCESSES p WHERE p.globalPid = (x.globalTid & ~16777215))");
  for (const char* const table : {"SLIPSTREAM_STEPS", "SLIPSTREAM_DROPS", "SLIPSTREAM_DEVICE_PERIODS"}) {
    add(table, "x.processId");
  }
  SayCounts(reader, "SELECT process, count(*) FROM (" + rows + ") GROUP BY process", "ends_before_starts",
            "row ends before it begins", "rows end before they begin", processes);
}

// Of one thread and domain, pushed ranges lie within each other or beside each other.
void RangesThatCross(DatabaseReader* reader, ByProcess* processes) {
  if (!reader->HasTable("NVTX_EVENTS")) return;
  std::map<int64_t, uint64_t> counts;
  std::tuple<int64_t, int64_t, int64_t> place(-1, -1, -1);
  std::vector<int64_t> open;  // ends
  Question row(*reader,
               "SELECT p.processId, x.globalTid, x.domainId, x.start, x.\"end\" FROM NVTX_EVENTS x JOIN "
               "SLIPSTREAM_PROCESSES p ON p.globalPid = (x.globalTid & ~16777215) WHERE x.eventType = " +
                   std::to_string(trace_db::kNvtxPushPopRange) +
                   " ORDER BY p.processId, x.globalTid, x.domainId, x.start, x.\"end\" DESC");
  while (row.Next()) {
    const std::tuple now(row.Number(0), row.Number(1), row.Number(2));
    if (now != place) open.clear();
    place = now;
    while (!open.empty() && open.back() <= row.Number(3)) open.pop_back();
    if (!open.empty() && row.Number(4) > open.back()) ++counts[row.Number(0)];
    open.push_back(row.Number(4));
  }
  for (const auto& [process, count] : counts) {
    if (ProcessCheck* const check = Of(processes, process)) {
      Say(count, "ranges_cross", Count(count, "NVTX range crosses another one", "NVTX ranges cross other ones"),
          &check->contradicts);
    }
  }
}

struct Memory {
  uint64_t freed_twice = 0;
  uint64_t given_twice = 0;
};

// By kind and address: whether it is there. What was got before the recording is freed once.
Memory MemoryOf(DatabaseReader* reader, int64_t process) {
  Memory found;
  std::map<std::pair<int64_t, int64_t>, bool> is_there;
  Question row(*reader,
               "SELECT event, kind, address FROM SLIPSTREAM_ALLOCATIONS WHERE processId = ? ORDER BY time, event DESC");
  row.Bind(1, process);
  while (row.Next()) {
    if (row.Number(0) == 3) {
      is_there.clear();  // a reset, of one device or another
      continue;
    }
    const bool allocated = row.Number(0) == 1;
    const auto [at, is_new] = is_there.try_emplace({row.Number(1), row.Number(2)}, allocated);
    if (!is_new && at->second == allocated) ++(allocated ? found.given_twice : found.freed_twice);
    at->second = allocated;
  }
  return found;
}

// A record that is missing may be the one that would explain it.
void CheckMemory(DatabaseReader* reader, ByProcess* processes) {
  for (auto& [process, check] : *processes) {
    const Memory memory = MemoryOf(reader, process);
    std::vector<Finding>* const to = check.lacks.empty() ? &check.contradicts : &check.lacks;
    const std::string why = check.lacks.empty() ? "" : "; records are missing";
    Say(memory.freed_twice, "freed_twice",
        Count(memory.freed_twice, "block of memory is given back twice", "blocks of memory are given back twice") + why,
        to);
    Say(memory.given_twice, "given_twice",
        Count(memory.given_twice, "address is given out while it is in use", "addresses are given out while in use") +
            why,
        to);
  }
}

}  // namespace

void CheckOrder(DatabaseReader* reader, ByProcess* processes) {
  CallsThatOverlap(reader, processes);
  EndsBeforeStarts(reader, processes);
  RangesThatCross(reader, processes);
  CheckMemory(reader, processes);
  if (reader->HasTable(kRuntime.name)) {
    SayCounts(reader,
              "SELECT d.processId, count(*) FROM SLIPSTREAM_DECISION_EVENTS d JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON "
              "r.correlationId = d.correlationId WHERE d.time NOT BETWEEN r.start AND r.\"end\" GROUP BY d.processId",
              "decisions_outside", "decision lies outside the call that it was made in",
              "decisions lie outside the calls that they were made in", processes);
  }
  for (const char* const table :
       {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"}) {
    if (!reader->HasTable(table) || !reader->HasTable(kRuntime.name)) continue;
    SayCounts(reader,
              std::string("SELECT c.processId, count(*) FROM ") + table +
                  " w JOIN SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId JOIN SLIPSTREAM_PROCESSES p ON "
                  "p.processId = c.processId WHERE w.globalPid != p.globalPid GROUP BY c.processId",
              "work_of_others", "piece of device work is of a call of another process",
              "pieces of device work are of calls of another process", processes);
  }
}

}  // namespace slipstream::trace_check
