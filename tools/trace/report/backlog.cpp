#include "tools/trace/report/backlog.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/decision_text.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

bool IsKnown(const ProcessReport& process) {
  return process.has_steps && process.devices_recorded && !process.unwatched_everywhere && !process.drops_everywhere;
}

// Columns: when it was asked for, start, end, globalPid. In no order.
std::string AskedWorkSql(DatabaseReader* reader) {
  std::string sql;
  for (const trace_db::TableLayout* const table : {&trace_db::kKernels, &trace_db::kCopies, &trace_db::kSets}) {
    if (!reader->HasColumn(table->name, "correlationId") || !reader->HasColumn(table->name, "globalPid")) continue;
    sql += std::string(sql.empty() ? "" : " UNION ALL ") + "SELECT r.start, w.start, w.\"end\", w.globalPid FROM " +
           table->name + " w JOIN " + trace_db::kRuntime.name + " r ON r.correlationId = w.correlationId";
  }
  return sql;
}

// Null: none.
Step* StepAt(int64_t time, std::vector<Step>* steps) {
  const auto behind = std::upper_bound(steps->begin(), steps->end(), time,
                                       [](int64_t at, const Step& step) { return at < step.start; });
  if (behind == steps->begin()) return nullptr;
  Step& step = *std::prev(behind);
  return time < step.end ? &step : nullptr;
}

// Of the thread that makes the steps, the first call that begins then or later and waited for a device.
std::optional<Interval> WaitSince(DatabaseReader* reader, const ProcessReport& process, int64_t since) {
  for (const char* const name : {"SLIPSTREAM_CALLS", "SLIPSTREAM_DECISIONS", trace_db::kRuntime.name}) {
    if (!reader->HasTable(name)) return std::nullopt;
  }
  run::Names names(reader);
  DecisionNames decisions(&names);
  Question row(*reader,
               "SELECT r.start, r.\"end\", s.value, d.decisionId FROM SLIPSTREAM_CALLS c JOIN "
               "CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds s ON s.id = r.nameId LEFT JOIN "
               "SLIPSTREAM_DECISIONS d USING (correlationId) WHERE c.processId = ? AND c.thread = ? AND r.start >= ? "
               "ORDER BY r.start");
  row.Bind(1, process.process).Bind(2, process.step_thread).Bind(3, since);
  size_t others = 0;
  while (row.Next()) {
    const std::string function(row.Text(2));
    const bool is_other = KindOf(function) == CallKind::kLaunch && row.Number(0) >= process.steps.back().end;
    if (is_other && ++others > kOtherLaunches) return std::nullopt;
    if (!Waits(function) && KindOf(function) != CallKind::kSynchronize) continue;
    const DecisionNames::Known& decision = decisions.Of(row.Number(3));
    if (decision.skips_the_wait || decision.makes_it_return) continue;
    const int64_t start = trace_db::BoundedTime(row.Number(0));
    return Interval{start, trace_db::BoundedEnd(start, row.Number(1))};
  }
  return std::nullopt;
}

void GuessFromTheWaitAfter(DatabaseReader* reader, ProcessReport* process) {
  constexpr double kSeen = 1.05;
  const Step* last = nullptr;  // of the measured ones
  double measured = 0;
  size_t count = 0;
  for (const Step& step : process->steps) {
    if (step.use != StepUse::kMeasured) continue;
    last = &step;
    measured += static_cast<double>(step.time());
    ++count;
  }
  if (last == nullptr || measured <= 0) return;
  const std::optional<Interval> wait = WaitSince(reader, *process, last->end);
  if (!wait) return;
  double all = measured;
  size_t steps = count;
  int64_t end = last->end;
  for (const Step* step = last + 1; step != process->steps.data() + process->steps.size(); ++step) {
    if (step->start > wait->start) break;
    all += static_cast<double>(step->time());
    end = step->end;
    ++steps;
  }
  if (wait->start >= end) all += static_cast<double>(wait->end - wait->start);
  const double factor = (all / static_cast<double>(steps)) / (measured / static_cast<double>(count));
  for (Step& step : process->steps) step.work_time = std::llround(static_cast<double>(step.time()) * factor);
  if (factor <= kSeen) return;
  process->ran_ahead = true;
  process->waited_after = wait->end - wait->start;
}

void FromDevices(DatabaseReader* reader, ProcessTable* table) {
  if (std::none_of(table->processes.begin(), table->processes.end(), IsKnown)) return;
  if (!reader->HasTable(trace_db::kRuntime.name)) return;
  const std::string sql = AskedWorkSql(reader);
  if (sql.empty()) return;
  Question row(*reader, sql);
  while (row.Next()) {
    const int64_t index = table->OfGlobal(row.Number(3));
    if (index < 0) continue;
    ProcessReport& process = table->processes[static_cast<size_t>(index)];
    Step* const step = IsKnown(process) ? StepAt(trace_db::BoundedTime(row.Number(0)), &process.steps) : nullptr;
    const int64_t start = trace_db::BoundedTime(row.Number(1));
    if (step == nullptr || start <= step->end) continue;
    step->backlog = std::max(step->backlog, trace_db::BoundedEnd(start, row.Number(2)) - step->end);
  }
  for (ProcessReport& process : table->processes) {
    if (!IsKnown(process)) continue;
    // What one step left is still there in the next, unless that takes as long.
    for (size_t i = 1; i < process.steps.size(); ++i) {
      const Step& before = process.steps[i - 1];
      Step& step = process.steps[i];
      step.backlog = std::max(step.backlog, before.backlog - (step.end - before.end));
    }
    process.ran_ahead = !ChooseByBacklog(&process.steps);
  }
}

}  // namespace

void FindBacklogs(DatabaseReader* reader, ProcessTable* table) {
  FromDevices(reader, table);
  for (ProcessReport& process : table->processes) {
    const bool no_devices = !process.devices_recorded || process.unwatched_everywhere;
    if (process.has_steps && no_devices && !process.drops_everywhere) GuessFromTheWaitAfter(reader, &process);
  }
}

}  // namespace slipstream::report
