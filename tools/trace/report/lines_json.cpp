#include "tools/trace/report/lines_json.h"

#include <optional>
#include <utility>

#include "tools/trace/report/verdict.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::report {
namespace {

using text::Json;
using text::OrNull;

void PutLine(const LineReport& line, Json* json) {
  (*json)["file"] = line.known ? Json(line.file) : Json(nullptr);
  (*json)["line"] = OrNull(line.line);
  (*json)["function"] = OrNull(line.function);
  (*json)["of_step_thread"] = line.of_step_thread;
}

}  // namespace

const char* HostName(size_t host) {
  constexpr const char* kNames[kHostStates] = {"copies",   "synchronizes", "allocator",
                                               "launches", "other_calls",  "outside_of_calls"};
  return kNames[host];
}

Json VerdictJson(const Report& report) {
  const std::optional<Verdict> verdict = VerdictOf(report);
  if (!verdict) return nullptr;
  const ProcessReport& process = report.processes[verdict->process];
  Json line = nullptr;
  if (verdict->line) {
    line = Json::object();
    PutLine(*verdict->line, &line);
    line["before_its_calls"] = verdict->before_line;
    line["time_ns"] = verdict->line_time;
  }
  const bool known = verdict->whole > 0;
  return {
      {"sentence", VerdictSentence(report, *verdict)},
      {"kind", NameOf(verdict->kind)},
      {"bottleneck", NameOf(verdict->bottleneck)},
      {"process", verdict->process},
      {"records_missing", verdict->records_missing},
      {"device", verdict->device ? Json(process.devices[*verdict->device].device) : Json(nullptr)},
      {"part", verdict->part ? Json(NameOf(*verdict->part)) : Json(nullptr)},
      {"kernels_ns", verdict->device ? Json(verdict->busy) : Json(nullptr)},
      {"time_ns", verdict->time},
      {"time_per_step_ns", verdict->per_step},
      {"share", known ? Json(static_cast<double>(verdict->time) / static_cast<double>(verdict->whole)) : Json(nullptr)},
      {"most_at", std::move(line)},
      {"kernel", OrNull(verdict->kernel)},
      {"kernel_time_ns", verdict->kernel.empty() ? Json(nullptr) : Json(verdict->kernel_time)}};
}

Json IdleLinesJson(const Report& report, const DeviceReport& device) {
  if (!report.kernels_recorded) return nullptr;
  Json list = Json::array();
  for (const IdleLineReport& idle : device.idle_lines) {
    Json& one = list.emplace_back(Json::object());
    one["while_host_in"] = HostName(idle.host);
    PutLine(idle.line, &one);
    if (idle.no_call) one["of_step_thread"] = nullptr;
    one["before_its_calls"] = idle.before_call;
    one["time_ns"] = idle.time;
  }
  return list;
}

Json KernelLinesJson(const Report& report, const DeviceReport& device) {
  if (!report.kernels_recorded || (device.kernel_lines.empty() && device.kernels != 0)) return nullptr;
  Json list = Json::array();
  for (const KernelLineReport& line : device.kernel_lines) {
    Json& one = list.emplace_back(Json::object());
    one["call_known"] = line.call_known;
    PutLine(line.line, &one);
    if (!line.call_known) one["of_step_thread"] = nullptr;
    one["count"] = line.launches;
    one["time_ns"] = line.time;
    one["top_kernel"] = line.top_kernel;
    one["top_kernel_time_ns"] = line.top_time;
  }
  return list;
}

Json RangesJson(const ProcessReport& process) {
  const bool devices = process.ranges.kernels_known;
  Json list = Json::array();
  for (const RangeReport& range : process.ranges.names) {
    list.push_back({{"name", range.name},
                    {"domain", OrNull(range.domain)},
                    {"count", range.count},
                    {"time_ns", range.time},
                    {"time_per_step_ns", static_cast<double>(range.time) / process.divisor()},
                    {"kernels", devices ? Json(range.kernels) : Json(nullptr)},
                    {"kernel_time_ns", devices ? Json(range.kernel_time) : Json(nullptr)}});
  }
  return {{"names", std::move(list)}, {"left_out", process.ranges.left_out}};
}

}  // namespace slipstream::report
