#include "tools/report/report.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tools/report/pass.h"
#include "tools/report/processes.h"
#include "tools/report/timeline.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

void ReadRun(DatabaseReader* reader, Report* report) {
  report->has_own_tables = reader->HasTable("SLIPSTREAM_PROCESSES");
  if (reader->HasTable("TARGET_INFO_SESSION_START_TIME")) {
    Question row(*reader, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    if (row.Next()) report->start_unix_ns = row.Number(0);
  }
  if (reader->HasTable("META_DATA_EXPORT")) {
    Question row(*reader,
                 "SELECT name, value FROM META_DATA_EXPORT WHERE name IN ('EXPORT_PRODUCT_NAME', "
                 "'EXPORT_PRODUCT_VERSION') ORDER BY name");
    while (row.Next()) report->product += (report->product.empty() ? "" : " ") + std::string(row.Text(1));
  }
  if (reader->HasTable("SLIPSTREAM_HOSTS")) {
    for (Question row(*reader, "SELECT name FROM SLIPSTREAM_HOSTS ORDER BY hostId"); row.Next();) {
      report->hosts.emplace_back(row.Text(0));
    }
  } else if (reader->HasTable("TARGET_INFO_SYSTEM_ENV")) {
    Question row(*reader, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'");
    while (row.Next()) report->hosts.emplace_back(row.Text(0));
  }
}

// The slowest in the median; where nobody has steps, who has most calls.
size_t Shown(const std::vector<ProcessReport>& processes) {
  const auto less = [](const ProcessReport& a, const ProcessReport& b) {
    if (a.has_steps != b.has_steps) return b.has_steps;
    return a.has_steps ? a.step_time.median < b.step_time.median : a.calls < b.calls;
  };
  return static_cast<size_t>(std::max_element(processes.begin(), processes.end(), less) - processes.begin());
}

std::optional<Spread> SpreadOf(const std::vector<ProcessReport>& processes) {
  Spread spread;
  size_t with_steps = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!processes[i].has_steps) continue;
    const auto median = [&](size_t of) { return processes[of].step_time.median; };
    if (with_steps == 0 || median(i) < median(spread.fastest)) spread.fastest = i;
    if (with_steps == 0 || median(i) > median(spread.slowest)) spread.slowest = i;
    ++with_steps;
  }
  if (with_steps < 2) return std::nullopt;
  spread.difference = processes[spread.slowest].step_time.median - processes[spread.fastest].step_time.median;
  return spread;
}

}  // namespace

Report MakeReport(DatabaseReader* reader, const ReportOptions& options) {
  Report report;
  ReadRun(reader, &report);
  ProcessTable table = ReadProcesses(reader);
  for (size_t i = 0; i < table.processes.size(); ++i) {
    const ProcessReport& process = table.processes[i];
    report.first = i == 0 ? process.first : std::min(report.first, process.first);
    report.last = i == 0 ? process.last : std::max(report.last, process.last);
    report.calls += process.calls;
  }
  ReadMemory(reader, report.first, report.last, &table);
  PassOverCalls(reader, options, &table, &report);
  report.processes = std::move(table.processes);
  if (report.processes.empty()) return report;
  report.shown = Shown(report.processes);
  report.spread = SpreadOf(report.processes);
  if (options.timeline) report.timeline = MakeTimeline(reader, report, report.shown);
  return report;
}

std::string NameOf(const ProcessReport& process) {
  std::string name = std::filesystem::path(process.executable).filename().string();
  if (name.empty()) name = process.spool.empty() ? "process " + std::to_string(process.process) : process.spool;
  std::string more;
  if (process.pid) more = "pid " + std::to_string(*process.pid);
  if (process.rank) more += (more.empty() ? "rank " : ", rank ") + std::to_string(*process.rank);
  return more.empty() ? name : name + " (" + more + ")";
}

}  // namespace slipstream::report
