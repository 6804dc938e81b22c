#include "tools/trace/report/avoided_waits.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "tools/trace/db/schema.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

constexpr const char* kTables[] = {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                                   "CUPTI_ACTIVITY_KIND_MEMSET"};

// Columns: start, end, globalPid, context, stream, node of a graph, correlation; whether it is a copy.
std::string WorkSql(DatabaseReader* reader) {
  std::string sql;
  for (const char* const table : kTables) {
    if (!reader->HasTable(table)) continue;
    const auto column = [&](const char* name, const char* without, const char* as) {
      return std::string(", ") + (reader->HasColumn(table, name) ? name : without) + " AS " + as;
    };
    sql += std::string(sql.empty() ? "" : " UNION ALL ") + "SELECT start AS s, \"end\" AS e" +
           column("globalPid", "NULL", "p") + column("contextId", "deviceId", "context") +
           column("streamId", "0", "stream") + column("graphNodeId", "NULL", "node") +
           column("correlationId", "NULL", "correlationId") + ", " + (table == kTables[1] ? "1" : "0") +
           " AS copy FROM " + table;
  }
  return sql;
}

// In the order in which it was asked for; of work without a call, in which it began.
std::string AskedForSql(const std::string& work) {
  if (work.empty()) return "";
  return "SELECT coalesce(r.start, w.s) AS asked, w.e, w.p, w.context, w.stream, w.node, r.eventClass, r.nameId, "
         "c.processId, c.thread, c.stream, "
         // Only of copies the decision matters.
         "CASE w.copy WHEN 1 THEN (SELECT decisionId FROM SLIPSTREAM_DECISIONS d WHERE d.correlationId = "
         "w.correlationId) END FROM (" +
         work +
         ") w LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = w.correlationId "
         "LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId "
         "ORDER BY asked, w.e";
}

// Whether there is anything to look for.
bool AnythingSkipped(DatabaseReader* reader) {
  for (const char* const table : {"CUPTI_ACTIVITY_KIND_RUNTIME", "SLIPSTREAM_CALLS", "SLIPSTREAM_DECISIONS"}) {
    if (!reader->HasTable(table)) return false;
  }
  Question names(*reader, "SELECT value FROM StringIds WHERE value LIKE 'transfer.%'");
  while (names.Next()) {
    if (SkipsTheWait(names.Text(0)) || MakesItReturn(names.Text(0))) return true;
  }
  return false;
}

std::string Wanted(DatabaseReader* reader) { return AnythingSkipped(reader) ? AskedForSql(WorkSql(reader)) : ""; }

}  // namespace

AvoidedWaits::AvoidedWaits(DatabaseReader* reader, ProcessTable* table, run::Names* names, DecisionNames* decisions)
    : table_(*table), names_(*names), decisions_(*decisions), work_(reader, Wanted(reader)) {
  for (const ProcessReport& report : table->processes) {
    Process& process = processes_.emplace_back();
    process.known = report.devices_recorded && !report.unwatched_everywhere;
    process.measured = MeasuredTime(report.steps);
  }
  if (work_.start() == kNever) return;
  has_work_ = true;
  std::vector<std::optional<int64_t>> context(processes_.size());
  Question row(*reader, "SELECT DISTINCT p, context FROM (" + WorkSql(reader) + ")");
  while (row.Next()) {
    const int64_t index = table->OfGlobal(row.Number(0));
    if (index < 0) continue;
    const auto at = static_cast<size_t>(index);
    if (context[at] && *context[at] != row.Number(1)) processes_[at].work.SeveralContexts();
    context[at] = row.Number(1);
  }
}

void AvoidedWaits::WorkUpTo(int64_t time) {
  for (; work_.start() < time; work_.Step()) AddWork();
}

void AvoidedWaits::AddWork() {
  const Question& row = work_.row();
  const int64_t index = table_.OfGlobal(row.Number(2));
  if (index < 0) return;
  const StreamWork::Stream stream = {row.Number(3), row.Number(4)};
  const int64_t end = work_.end();
  const bool of_graph = !row.IsNull(5);
  Process& process = processes_[static_cast<size_t>(index)];
  process.last_end = std::max(process.last_end, end);
  if (!process.measured.empty() && end > process.measured.front().start &&
      work_.start() < process.measured.back().end) {
    process.streams.insert(stream);
  }
  StreamWork& work = process.work;
  if (!of_graph) work.Add(stream, end);
  const bool hooked = row.NumberIfKnown(6) == trace_db::kClassRuntime && !row.IsNull(8);
  if (!hooked) return;
  const StreamHandle handle(row.Number(10), row.Number(9));
  if (of_graph) {
    work.AddFor(handle, end);
  } else if (NamesItsStream(names_.TextOf(row.Number(7))) && !decisions_.Of(row.Number(11)).uses_other_streams) {
    work.Is(handle, stream);
  }
}

void AvoidedWaits::Add(size_t process, const Call& call) {
  Process& of = processes_[process];
  if (!of.known) return;
  Thread& thread = of.threads.try_emplace(call.thread, &of.measured).first->second;
  thread.of_step_thread = call.of_step_thread;
  const DecisionNames::Known& decision = decisions_.Of(call.decision);
  const bool staged = call.function->kind == CallKind::kCopy && decision.makes_it_return;
  const bool may_wait = call.function->kind == CallKind::kSynchronize || call.function->kind == CallKind::kAllocator ||
                        (call.function->kind == CallKind::kCopy && !staged);
  const int64_t lost = std::max<int64_t>(0, -call.saved);
  thread.ahead.Add(
      {.start = call.start, .end = call.end, .kind = call.function->kind, .waits = may_wait || lost > 0, .lost = lost});
  if (PlainName(call.function->name) == "cudaStreamDestroy" || PlainName(call.function->name) == "cuStreamDestroy") {
    WorkUpTo(call.start);
    of.work.Destroyed({call.stream, call.thread});
    return;
  }
  const std::string& function = call.function->name;
  const bool skipped = (IsStreamSynchronize(function) && decision.skips_the_wait) ||
                       (IsBlockingCopy(function) && staged && call.bytes > kMayReturnEarly);
  if (!skipped) return;
  WorkUpTo(call.start);
  const std::optional<int64_t> until = of.work.Until({call.stream, call.thread});
  const SkippedBy by = staged ? SkippedBy::kCopy : SkippedBy::kSynchronization;
  if (until) {
    thread.ahead.Skipped(*until, by);
    SkippedByAny(&of, call.start, *until);
  }
  if (!call.measured) return;
  ++of.skipped[static_cast<size_t>(by)];
  if (!until) ++of.stream_unknown;
  if (until && *until > call.end) ++of.behind_work;
}

bool AvoidedWaits::Idle(size_t process, int64_t time) {
  if (!processes_[process].known || !has_work_) return false;
  WorkUpTo(time);
  return processes_[process].last_end <= time;
}

void AvoidedWaits::PassEnds(Process* process, int64_t time) {
  for (; process->ended < process->measured.size() && process->measured[process->ended].end <= time; ++process->ended) {
    AddTo(&process->pending, std::max<int64_t>(0, process->until - process->measured[process->ended].end));
  }
}

void AvoidedWaits::SkippedByAny(Process* process, int64_t start, int64_t until) {
  PassEnds(process, start);
  process->any.Add({.start = start, .end = start});
  process->any.Skipped(until);
  process->until = std::max(process->until, until);
}

void AvoidedWaits::FinishBound(size_t process, AheadReport* report) {
  Process& of = processes_[process];
  WorkUpTo(kNever);
  const ProcessReport& its = table_.processes[process];
  if (of.stream_unknown != 0) {
    report->why_no_bound = "of a wait the stream is not known";
  } else if (table_.processes.size() > 1 || its.world_size.value_or(1) > 1) {
    report->why_no_bound = "processes of one run may wait for each other";
  } else if (of.streams.size() > 1) {
    report->why_no_bound = "work was on several streams, slipstream's own among them";
  }
  if (report->why_no_bound != nullptr) return;
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  PassEnds(&of, kEnd);
  of.any.Add({.start = kEnd, .end = kEnd});
  report->at_most = Sum(of.any.times().all_went_on(), of.pending);
}

void AvoidedWaits::Finish(size_t process) {
  const Process& of = processes_[process];
  if (!of.known) return;
  AheadReport& report = table_.processes[process].ahead.emplace();
  report.skipped = of.skipped[0] + of.skipped[1];
  report.skipped_by = of.skipped;
  report.behind_work = of.behind_work;
  report.stream_unknown = of.stream_unknown;
  for (const auto& [number, thread] : of.threads) {
    (thread.of_step_thread ? report.step_thread : report.other_threads).Add(thread.ahead.times());
  }
  FinishBound(process, &report);
}

}  // namespace slipstream::report
