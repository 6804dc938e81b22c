#include "tools/trace/top/json.h"

#include <algorithm>
#include <utility>

#include "tools/text/json_text.h"

namespace slipstream::top {
namespace {

using text::Json;

constexpr const char* kKindNames[report::kCallKinds] = {"copies", "synchronizes", "allocator", "launches", "other"};

// The first ones, by time.
constexpr size_t kMostLinesShown = 100;

Json SumJson(const CallSum& sum) {
  return {{"calls", sum.calls}, {"bytes", sum.bytes}, {"time_ns", sum.time_ns}, {"errors", sum.errors}};
}

Json CountersJson(const CounterView& counters) {
  Json kinds = Json::object();
  for (size_t i = 0; i < report::kCallKinds; ++i) kinds[kKindNames[i]] = SumJson(counters.kinds[i]);
  Json functions = Json::array();
  for (const FunctionView& function : counters.functions) {
    Json row = {{"name", function.name}, {"waits", function.waits}};
    row.update(SumJson(function.sum));
    functions.push_back(std::move(row));
  }
  Json copies = Json::array();
  for (const CopyView& copy : counters.copies) {
    copies.push_back({{"direction", copy.direction}, {"calls", copy.calls}, {"bytes", copy.bytes}});
  }
  Json decisions = Json::array();
  for (const DecisionView& decision : counters.decisions) {
    decisions.push_back(
        {{"name", decision.name}, {"count", decision.count}, {"bytes", decision.bytes}, {"time_ns", decision.time_ns}});
  }
  return {{"seconds", counters.seconds},  {"total_calls", counters.total_calls},
          {"all", SumJson(counters.all)}, {"waiting", SumJson(counters.waiting)},
          {"kinds", std::move(kinds)},    {"functions", std::move(functions)},
          {"copies", std::move(copies)},  {"decisions", std::move(decisions)}};
}

Json StepsJson(const StepsView& steps) {
  return {{"seen", steps.seen},
          {"of", steps.of},
          {"last_ns", steps.last_ns},
          {"median_ns", steps.median_ns},
          {"p95_ns", steps.p95_ns},
          {"per_second", steps.per_second},
          {"trend_ns", steps.trend_ns},
          {"since_last_ns", text::OrNull(steps.since_last_ns)},
          {"how", steps.how}};
}

Json TraceJson(const TraceView& trace) {
  Json lines = Json::array();
  for (const LineView& line : trace.lines) {
    if (lines.size() == kMostLinesShown) break;
    const bool known = !line.file.empty();
    lines.push_back({{"file", known ? Json(line.file) : Json(nullptr)},
                     {"line", known ? Json(line.line) : Json(nullptr)},
                     {"function", known ? Json(line.function) : Json(nullptr)},
                     {"calls", line.calls},
                     {"time_ns", line.time_ns}});
  }
  Json devices = nullptr;
  if (trace.has_device_work) {
    devices = Json::array();
    for (const DeviceView& device : trace.devices) {
      devices.push_back({{"device", device.device}, {"busy", device.busy}});
    }
  }
  Json ran_on = nullptr;
  if (trace.ahead) {
    ran_on = {{"share", trace.ahead->share}, {"skipped", trace.ahead->skipped}, {"unknown", trace.ahead->unknown}};
  }
  return {{"read", trace.read.value_or(1.0)},
          {"ended", trace.ended},
          {"trouble", trace.trouble.empty() ? Json(nullptr) : Json(trace.trouble)},
          {"dropped", trace.dropped},
          {"damaged", trace.damaged},
          {"steps", trace.steps ? StepsJson(*trace.steps) : Json(nullptr)},
          {"window_seconds", trace.seconds},
          {"steps_in_window", text::OrNull(trace.steps_in_window)},
          {"lines", std::move(lines)},
          {"devices", std::move(devices)},
          {"ran_on", std::move(ran_on)}};
}

const char* RecordingName(tracer::RecordState state) {
  switch (state) {
    case tracer::RecordState::kOn:
      return "on";
    case tracer::RecordState::kTurnedOff:
      return "off";
    case tracer::RecordState::kOutsideWindow:
      return "outside_window";
    case tracer::RecordState::kEnded:
      return "ended";
    case tracer::RecordState::kNone:
      break;
  }
  return "none";
}

Json ProcessJson(const ProcessView& process) {
  Json memory = Json::array();
  for (const tracer::MemoryFigures& figures : process.memory) {
    memory.push_back({{"device", figures.device},
                      {"live_bytes", figures.live_bytes},
                      {"idle_bytes", figures.idle_bytes},
                      {"parked_bytes", figures.parked_bytes},
                      {"trims", figures.trims},
                      {"retries", figures.retries}});
  }
  return {{"pid", process.pid},
          {"rank", process.rank >= 0 ? Json(process.rank) : Json(nullptr)},
          {"executable", process.executable},
          {"command", text::OrNull(process.command)},
          {"user", text::OrNull(process.user)},
          {"directory", text::OrNull(process.directory)},
          {"recording", process.recording ? Json(RecordingName(*process.recording)) : Json(nullptr)},
          {"slowest", process.slowest},
          {"host", process.host.empty() ? Json(nullptr) : Json(process.host)},
          {"start_unix_ns", process.start_unix_ns},
          {"alive", process.alive},
          {"counters", process.counters ? CountersJson(*process.counters) : Json(nullptr)},
          {"trace", process.trace ? TraceJson(*process.trace) : Json(nullptr)},
          {"memory", std::move(memory)}};
}

}  // namespace

std::string ViewJson(const View& view) {
  Json processes = Json::array();
  for (const ProcessView& process : view.processes) processes.push_back(ProcessJson(process));
  Json directories = Json::array();
  for (const std::string& directory : view.directories) directories.push_back(directory);
  Json problems = Json::array();
  for (const std::string& problem : view.problems) problems.push_back(problem);
  // Of several runs each has its own.
  Json slowest = nullptr;
  const auto marked = [](const ProcessView& process) { return process.slowest; };
  if (std::count_if(view.processes.begin(), view.processes.end(), marked) == 1) {
    slowest = std::find_if(view.processes.begin(), view.processes.end(), marked)->pid;
  }
  const Json root = {{"schema", kTopSchema},
                     {"unix_ns", view.unix_ns},
                     {"ended", view.ended},
                     {"directories", std::move(directories)},
                     {"problems", std::move(problems)},
                     {"slowest_pid", std::move(slowest)},
                     {"uncounted_pids", view.uncounted},
                     {"processes", std::move(processes)}};
  return text::DumpBytes(root, -1) + "\n";
}

}  // namespace slipstream::top
