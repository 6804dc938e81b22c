#include "tools/trace/report/report.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tools/trace/report/backlog.h"
#include "tools/trace/report/fragmentation.h"
#include "tools/trace/report/held_memory.h"
#include "tools/trace/report/pass.h"
#include "tools/trace/report/pool_calls.h"
#include "tools/trace/report/processes.h"
#include "tools/trace/report/program_ranges.h"
#include "tools/trace/report/timeline.h"

namespace slipstream::report {
namespace {

// What is less than one part in so many of a step tells no rank from another.
constexpr int64_t kProcessesDiffer = 50;

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

std::optional<Communication> CommunicationOf(const std::vector<ProcessReport>& processes) {
  Communication found;
  size_t count = 0;
  int64_t least = 0;
  int64_t most = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!processes[i].has_steps || processes[i].communication() == 0) continue;
    const int64_t of_step = processes[i].communication() / static_cast<int64_t>(processes[i].measured_steps);
    if (count == 0 || of_step < least) {
      found.waited_for = i;
      least = of_step;
    }
    if (count == 0 || of_step > most) {
      found.waits_most = i;
      most = of_step;
    }
    ++count;
  }
  if (count < 2) return std::nullopt;
  found.wait = most - least;
  return found;
}

// The longest in the median; where nobody has steps, who has most calls.
size_t Shown(const std::vector<ProcessReport>& processes) {
  const auto less = [](const ProcessReport& a, const ProcessReport& b) {
    if (a.has_steps != b.has_steps) return b.has_steps;
    return a.has_steps ? a.pace_of_work().median < b.pace_of_work().median : a.calls < b.calls;
  };
  return static_cast<size_t>(std::max_element(processes.begin(), processes.end(), less) - processes.begin());
}

std::optional<Spread> SpreadOf(const std::vector<ProcessReport>& processes) {
  Spread spread;
  size_t with_steps = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!processes[i].has_steps) continue;
    const auto median = [&](size_t of) { return processes[of].pace_of_work().median; };
    if (with_steps == 0 || median(i) < median(spread.shortest)) spread.shortest = i;
    if (with_steps == 0 || median(i) > median(spread.longest)) spread.longest = i;
    ++with_steps;
  }
  if (with_steps < 2) return std::nullopt;
  spread.difference =
      processes[spread.longest].pace_of_work().median - processes[spread.shortest].pace_of_work().median;
  return spread;
}

std::optional<Slowest> SlowestByCommunication(const Report& report) {
  if (!report.communication) return std::nullopt;
  const ProcessReport& late = report.processes[report.communication->waited_for];
  const ProcessReport& waits = report.processes[report.communication->waits_most];
  if (report.communication->wait <= late.pace_of_work().median / kProcessesDiffer) return std::nullopt;
  if (!Differ(late.communication_time, waits.communication_time)) return std::nullopt;
  return Slowest{report.communication->waited_for, report.communication->waits_most, Slowest::By::kCommunication,
                 report.communication->wait};
}

std::optional<Slowest> SlowestByStepTime(const Report& report) {
  const ProcessReport& longest = report.processes[report.spread->longest];
  const ProcessReport& shortest = report.processes[report.spread->shortest];
  if (report.spread->difference <= shortest.pace_of_work().median / kProcessesDiffer) return std::nullopt;
  if (!Differ(longest.pace_of_work(), shortest.pace_of_work())) return std::nullopt;
  return Slowest{report.spread->longest, report.spread->shortest, Slowest::By::kStepTime, report.spread->difference};
}

// Of ranks with steps of one length: they wait for each other, and the one that does so least is late.
std::optional<Slowest> SlowestByHost(const Report& report) {
  const std::vector<ProcessReport>& processes = report.processes;
  std::vector<size_t> ranks;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].has_steps && processes[i].rank) ranks.push_back(i);
  }
  if (ranks.size() < 2 || report.kernels_recorded) return std::nullopt;
  const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
    return processes[a].time_outside_waits.median < processes[b].time_outside_waits.median;
  });
  const Distribution& late = processes[*most].time_outside_waits;
  const Distribution& waits = processes[*least].time_outside_waits;
  if (late.median - waits.median <= processes[*most].pace_of_work().median / kProcessesDiffer || !Differ(late, waits)) {
    return std::nullopt;
  }
  return Slowest{*most, *least, Slowest::By::kOutsideWaits, late.median - waits.median};
}

std::optional<Slowest> SlowestOf(const Report& report) {
  if (!report.spread) return std::nullopt;
  std::optional<Slowest> slowest = SlowestByCommunication(report);
  if (!slowest) slowest = SlowestByStepTime(report);
  if (!slowest) slowest = SlowestByHost(report);
  return slowest;
}

}  // namespace

Report MakeReport(DatabaseReader* reader, const ReportOptions& options) {
  Report report;
  ReadRun(reader, &report);
  ProcessTable table = ReadProcesses(reader);
  FindBacklogs(reader, &table);
  for (size_t i = 0; i < table.processes.size(); ++i) {
    const ProcessReport& process = table.processes[i];
    report.first = i == 0 ? process.first : std::min(report.first, process.first);
    report.last = i == 0 ? process.last : std::max(report.last, process.last);
    report.calls += process.calls;
  }
  ReadMemory(reader, report.first, report.last, &table);
  ReadFragmentation(reader, &table);
  ReadHeldMemory(reader, options.timeline, report.first, report.last, &table);
  ReadLibraries(reader, &table);
  ReadPoolCalls(reader, &table);
  PassOverCalls(reader, options, &table, &report);
  ReadProgramRanges(reader, &table);
  report.processes = std::move(table.processes);
  if (report.processes.empty()) return report;
  report.shown = Shown(report.processes);
  report.spread = SpreadOf(report.processes);
  report.communication = CommunicationOf(report.processes);
  report.slowest = SlowestOf(report);
  if (report.slowest) report.shown = report.slowest->process;
  if (options.timeline) {
    report.timeline = MakeTimeline(reader, report, report.shown);
    report.flames = MakeFlames(reader, report.processes[report.shown], report.processes.size() == 1);
  }
  return report;
}

int64_t ProcessReport::communication() const {
  int64_t most = 0;
  for (const DeviceReport& device : devices) most = std::max(most, device.times.communication);
  return most;
}

int64_t ProcessReport::communication_alone() const {
  int64_t most = 0;
  for (const DeviceReport& device : devices) most = std::max(most, device.times.communication_alone);
  return most;
}

std::optional<int64_t> StepNumberAt(const ProcessReport& process, int64_t time) {
  if (!process.has_steps) return std::nullopt;
  for (const Step& step : process.steps) {
    if (step.start <= time && time < step.end) return step.number;
  }
  return std::nullopt;
}

std::optional<size_t> ProcessOf(const Report& report, std::optional<int64_t> rank) {
  if (report.processes.empty()) return std::nullopt;
  if (!rank) return report.shown;
  const auto at = std::find_if(report.processes.begin(), report.processes.end(),
                               [&](const ProcessReport& process) { return process.rank == rank; });
  if (at == report.processes.end()) return std::nullopt;
  return static_cast<size_t>(at - report.processes.begin());
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
