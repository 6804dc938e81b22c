#include <string>
#include <utility>

#include "tools/cli/process_json.h"
#include "tools/cli/summary.h"
#include "tools/cli/summary_gains.h"

namespace slipstream::cli {
namespace {

Json FunctionsJson(const tracer::ProcessCounts& process) {
  Json functions = Json::array();
  for (const tracer::FunctionCounts& function : process.functions) {
    if (function.calls == 0) continue;
    functions.push_back({{"name", function.name},
                         {"group", function.group},
                         {"calls", function.calls},
                         {"errors", function.errors},
                         {"bytes", function.bytes},
                         {"time_ns", function.time_ns}});
  }
  return functions;
}

Json CopiesJson(const tracer::ProcessCounts& process) {
  Json copies = Json::array();
  for (const tracer::CopyCounts& copy : process.copies) {
    if (copy.calls != 0) copies.push_back({{"kind", copy.kind}, {"calls", copy.calls}, {"bytes", copy.bytes}});
  }
  return copies;
}

Json OptionalNumber(int32_t value) { return value < 0 ? Json(nullptr) : Json(value); }

Json ProcessJson(const tracer::ProcessCounts& process) {
  return {{"pid", process.pid},
          {"parent_pid", process.parent_pid},
          {"rank", OptionalNumber(process.rank)},
          {"local_rank", OptionalNumber(process.local_rank)},
          {"start_unix_ns", process.start_unix_ns},
          {"executable", process.executable},
          {"runtimes", RuntimesJson(process)},
          {"facts", FactsJson(process)},
          {"functions", FunctionsJson(process)},
          {"copies", CopiesJson(process)},
          {"decisions", DecisionsJson(process)},
          {"memory", MemoryJson(process)}};
}

Json TraceJson(const TraceSummary& trace) {
  uint64_t records = 0;
  uint64_t dropped = 0;
  uint64_t bytes = 0;
  uint64_t later_calls = 0;
  uint64_t given_up = 0;
  for (const tracer::SpoolOutcome& file : trace.files) {
    records += file.records;
    dropped += file.dropped;
    bytes += file.bytes;
    later_calls += file.later_calls;
    given_up += file.given_up_records;
  }
  return {{"directory", trace.directory},
          {"files", trace.files.size()},
          {"records", records},
          {"dropped", dropped},
          {"bytes", bytes},
          {"later_calls", later_calls},
          {"given_up_records", given_up},
          {"troubles", trace.troubles}};
}

Json SparedJson(const SparedCalls& spared) { return {{"calls", spared.calls}, {"ns", spared.time_ns}}; }

// null where nothing is known.
Json GainsJson(const SummaryGains& gains) {
  if (gains.estimated_ns() == 0) return nullptr;
  return {{"estimated_ns", gains.estimated_ns()},
          {"allocations", SparedJson(gains.allocations)},
          {"frees", SparedJson(gains.frees)}};
}

Json PolicyJson(const std::vector<policy::LayerFile>& files) {
  Json json = Json::array();
  for (const policy::LayerFile& file : files) {
    json.push_back({{"layer", policy::NameOf(file.layer)}, {"file", file.path}});
  }
  return json;
}

}  // namespace

std::string SummaryJson(const RunSummary& summary, SummaryHas has) {
  Json processes = Json::array();
  if (has == SummaryHas::kProcesses) {
    for (const tracer::ProcessCounts& process : summary.processes) {
      processes.push_back(ProcessJson(process));
      processes.back()["still_running"] = summary.still_running.count(process.pid) != 0;
    }
  }
  const tracer::ProcessCounts total = Total(summary.processes);
  const Json root = {
      {"schema", kSummarySchema},
      {"command", summary.command},
      {"exit_status", text::OrNull(summary.exit_status)},
      {"wall_ns", summary.wall_ns == 0 ? Json(nullptr) : Json(summary.wall_ns)},
      {"policy", PolicyJson(summary.policy_files)},
      {"processes", std::move(processes)},
      {"totals",
       {{"functions", FunctionsJson(total)}, {"copies", CopiesJson(total)}, {"decisions", DecisionsJson(total)}}},
      {"gains", GainsJson(GainsOf(summary.processes))},
      {"trace", summary.trace ? TraceJson(*summary.trace) : Json(nullptr)},
      {"problems", summary.problems}};
  return JsonText(root);
}

}  // namespace slipstream::cli
