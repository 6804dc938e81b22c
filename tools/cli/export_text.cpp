#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>

#include "policy/text.h"
#include "tools/cli/export.h"
#include "tools/text/text.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::HumanBytes;
using text::HumanTime;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;
using trace_db::BuildResult;
using trace_db::ExportedProcess;

constexpr size_t kProcessesShown = 16;
constexpr size_t kNameColumns = 44;

std::string Count(uint64_t count, const char* one, const char* many) {
  return WithThousands(count) + " " + (count == 1 ? one : many);
}

// Of rows that there may be none of: nothing then.
std::string AndCount(uint64_t count, const char* one, const char* many) {
  return count == 0 ? "" : ", " + Count(count, one, many);
}

std::string NameOf(const ExportedProcess& process) {
  if (!process.pid.has_value()) return Escape(process.file);
  std::string name = Escape(process.executable) + " (pid " + std::to_string(*process.pid);
  if (process.rank.has_value()) name += ", rank " + std::to_string(*process.rank);
  return name + ")";
}

// A time that nobody would believe is shown as a number, too.
std::string Moment(const std::optional<int64_t>& ns) {
  if (!ns.has_value()) return "-";
  return *ns < 0 ? "-" + HumanTime(static_cast<uint64_t>(-(*ns + 1)) + 1) : HumanTime(static_cast<uint64_t>(*ns));
}

std::string Dropped(uint64_t dropped) { return dropped == 0 ? "-" : WithThousands(dropped); }

std::string Row(const std::string& name, const ExportedProcess& process) {
  return "  " + PadRight(name, kNameColumns) + PadLeft(WithThousands(process.calls), 14) +
         PadLeft(Moment(process.first_ns), 10) + PadLeft(Moment(process.last_ns), 10) +
         PadLeft(Dropped(process.end.dropped), 12) + "\n";
}

ExportedProcess Sum(const std::vector<ExportedProcess>& processes) {
  ExportedProcess sum;
  for (const ExportedProcess& process : processes) {
    sum.calls += process.calls;
    sum.end.records += process.end.records;
    sum.end.dropped += process.end.dropped;
    if (!process.first_ns.has_value()) continue;
    sum.first_ns = std::min(sum.first_ns.value_or(*process.first_ns), *process.first_ns);
    sum.last_ns = std::max(sum.last_ns.value_or(*process.last_ns), *process.last_ns);
  }
  return sum;
}

// What keeps a process's trace from being all of it; empty: nothing does.
std::string Gaps(const ExportedProcess& process) {
  const tracer::SpoolReader::End& end = process.end;
  std::string text;
  if (end.left_bytes != 0) {
    text += "; " + end.left_why + ": exported up to byte " + WithThousands(end.read_bytes) + ", " +
            HumanBytes(end.left_bytes) + " left out";
  } else if (!end.complete) {
    text += "; incomplete: it was killed or still runs, and its last moments may be missing";
  } else if (end.reason == tracer::EndReason::kLimit) {
    text += "; recorded up to the size that its file may have";
  } else if (end.reason == tracer::EndReason::kError) {
    text += "; recording ended early: its file could not be written (errno " + std::to_string(end.error) + ")";
  }
  if (end.later_calls != 0) {
    text += ", and " + Count(end.later_calls, "later call", "later calls") + " not in it";
  } else if (end.complete && end.reason != tracer::EndReason::kFinished && !end.later_calls_known) {
    text += ", and nobody knows how many calls came later";
  }
  if (end.damaged_bytes != 0 || end.missing_chunks != 0) {
    text += "; damaged: " + HumanBytes(end.damaged_bytes) + " passed over, " +
            Count(end.missing_chunks, "chunk", "chunks") + " missing";
  }
  if (end.malformed_chunks != 0) text += "; " + Count(end.malformed_chunks, "malformed chunk", "malformed chunks");
  if (end.missing_records != 0) text += "; " + Count(end.missing_records, "record", "records") + " missing in it";
  if (end.skipped_chunks != 0 || end.skipped_records != 0) {
    text += "; " + Count(end.skipped_chunks, "chunk", "chunks") + " and " +
            Count(end.skipped_records, "record", "records") + " of a newer slipstream left out";
  }
  if (end.given_up_records != 0) {
    text += "; the first " + Count(end.given_up_records, "record", "records") + " given up for newer ones, up to " +
            Moment(process.kept_from_ns);
  }
  return text.empty() ? text : text.substr(2);
}

// Of one process; empty: there are none.
std::string StepsLine(const ExportedProcess& process) {
  if (process.steps == 0 || !process.median_step_ns.has_value()) return "";
  std::string of = "as the process recorded them";
  if (!process.step_name.empty()) of = "its NVTX ranges named " + Escape(process.step_name);
  if (!process.step_line.empty()) of = "each from " + Escape(process.step_line) + " to the next time there";
  return "  " + NameOf(process) + ": " + Count(process.steps, "step", "steps") + " of " +
         Moment(process.median_step_ns) + " in the median, " + of + "\n";
}

std::string HostsLine(const BuildResult& result) {
  if (result.hosts.size() < 2) return "";
  uint64_t error = 0;
  bool known = true;
  for (const trace_db::Host& host : result.hosts) {
    const auto moved = static_cast<uint64_t>(host.clocks.highest) - static_cast<uint64_t>(host.clocks.lowest);
    error = std::max(error, host.clocks.error + moved);
    known = known && host.clocks.count != 0;
  }
  return "  " + Count(result.hosts.size(), "host", "hosts") +
         ", put beside each other by their wall clocks, each read " +
         (known ? "to " + HumanTime(error) : "at the beginning only") + "; SLIPSTREAM_HOSTS has the figures\n";
}

std::string FormatDatabase(const std::string& path, const BuildResult& result) {
  const std::string file = Escape(path);
  const ExportedProcess all = Sum(result.processes);
  std::string text = file + ": " + HumanBytes(result.database_bytes) + ", " + Count(all.calls, "call", "calls") +
                     " of " + Count(result.processes.size(), "process", "processes") + "\n";
  text += "  " + PadRight("process", kNameColumns) + PadLeft("calls", 14) + PadLeft("from", 10) + PadLeft("to", 10) +
          PadLeft("dropped", 12) + "\n";
  const size_t shown = result.processes.size() <= kProcessesShown + 1 ? result.processes.size() : kProcessesShown;
  for (size_t i = 0; i < shown; ++i) text += Row(NameOf(result.processes[i]), result.processes[i]);
  if (shown < result.processes.size()) {
    const std::vector<ExportedProcess> rest(result.processes.begin() + static_cast<std::ptrdiff_t>(shown),
                                            result.processes.end());
    text += Row(std::to_string(rest.size()) + " more processes", Sum(rest));
  }
  if (result.processes.size() > 1) text += Row("all", all);
  for (size_t i = 0; i < shown; ++i) text += StepsLine(result.processes[i]);
  return text + HostsLine(result);
}

// Why the traces of processes are incomplete, a line each; empty if they are complete.
std::string FormatGaps(const BuildResult& result) {
  std::string text;
  for (const ExportedProcess& process : result.processes) {
    const std::string gaps = Gaps(process);
    if (!gaps.empty()) text += "  " + Escape(process.file) + ": " + Escape(gaps) + "\n";
  }
  for (const auto& spool : result.unreadable) text += "  left out: " + Escape(spool.why) + "\n";
  return text;
}

std::string FormatTrace(const trace_export::ExportRequest& request, const trace_export::ExportOutcome& outcome) {
  const trace_export::RowCounts& rows = outcome.rows;
  if (request.format == trace_export::Format::kAllocations) {
    return Escape(request.file) + ": " + HumanBytes(outcome.bytes) + ", " +
           Count(rows.blocks, "allocation", "allocations") + AndCount(rows.frees, "free", "frees") +
           AndCount(rows.waits, "wait", "waits") + "\n";
  }
  std::string text = Escape(request.file) + ": " + HumanBytes(outcome.bytes) + ", " +
                     Count(rows.calls, "call", "calls") + AndCount(rows.kernels, "kernel", "kernels") +
                     AndCount(rows.copies, "copy", "copies") + AndCount(rows.sets, "memset", "memsets") +
                     AndCount(rows.steps, "step", "steps") + " of " +
                     Count(outcome.processes.size(), "process", "processes") + "\n";
  for (const trace_export::ExportedTrace& process : outcome.processes) {
    if (process.pid == process.shown_pid) continue;
    text += "  " + Escape(process.name) + " (pid " + std::to_string(process.pid) + " on " + Escape(process.host) +
            ") is process " + std::to_string(process.shown_pid) + " in it: another one has its number\n";
  }
  if (rows.strays != 0) {
    text += "  left out: " + Count(rows.strays, "row", "rows") + " of processes that the database does not name\n";
  }
  return text;
}

}  // namespace

std::string FormatExports(const Exports& exports) {
  std::string text;
  if (exports.database_made) text += FormatDatabase(*exports.database, exports.built);
  for (const Exports::Trace& trace : exports.traces) {
    if (trace.made()) text += FormatTrace(trace.request, trace.outcome);
  }
  return text.empty() ? "" : text + FormatGaps(exports.built);
}

std::string FormatPauses(trace_db::DatabaseReader* database, const std::optional<int64_t>& rank) {
  if (!database->HasTable("SLIPSTREAM_PAUSES")) return "";
  trace_db::Question row(*database,
                         "SELECT count(*), total(max(0, s.end - s.start)) FROM SLIPSTREAM_PAUSES s "
                         "JOIN SLIPSTREAM_PROCESSES p USING (processId) WHERE ?1 = 0 OR p.rank = ?2");
  row.Bind(1, rank ? 1 : 0).Bind(2, rank.value_or(0));
  if (!row.Next() || row.Number(0) <= 0) return "";
  const double ns = std::min(row.Real(1), 9e18);  // a damaged trace may say any time
  return "  the recording was paused " + Count(static_cast<uint64_t>(row.Number(0)), "time", "times") + ", " +
         HumanTime(static_cast<uint64_t>(ns)) + " in all, as tracer.window or `slipstream record` wanted it\n";
}

}  // namespace slipstream::cli
