#include "tools/trace/report/backlog.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/schema.h"

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

}  // namespace

void FindBacklogs(DatabaseReader* reader, ProcessTable* table) {
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

}  // namespace slipstream::report
