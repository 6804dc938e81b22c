#include <string>
#include <utility>

#include "tools/cli/doctor.h"
#include "tools/cli/process_json.h"

namespace slipstream::cli {
namespace {

Json ProbeJson(const tracer::ProcessCounts& process) {
  Json hooks = Json::array();
  for (const tracer::FunctionCounts& function : process.functions) {
    hooks.push_back({{"name", function.name}, {"bound", function.bound}, {"calls", function.calls}});
  }
  return {{"pid", process.pid},          {"executable", process.executable},    {"runtimes", RuntimesJson(process)},
          {"facts", FactsJson(process)}, {"decisions", DecisionsJson(process)}, {"hooks", std::move(hooks)}};
}

}  // namespace

std::string ReportJson(const DoctorReport& report) {
  Json devices = Json::array();
  for (const DeviceFacts& device : report.driver.devices) {
    devices.push_back({{"name", device.name},
                       {"memory_bytes", device.memory_bytes},
                       {"pageable_memory_access", device.pageable_access},
                       {"uses_host_page_tables", device.uses_host_page_tables}});
  }
  Json processes = Json::array();
  for (const tracer::ProcessCounts& process : report.probe.processes) processes.push_back(ProbeJson(process));
  const Json root = {{"schema", "slipstream-doctor-1"},
                     {"version", report.slipstream_version},
                     {"ok", report.failures.empty()},
                     {"failures", report.failures},
                     {"library", report.library},
                     {"policy", {{"source", report.policy}, {"problems", report.policy_problems}}},
                     {"driver",
                      {{"version", report.driver.version},
                       {"cuda_version", report.driver.cuda_version},
                       {"error", report.driver.error},
                       {"devices", std::move(devices)}}},
                     {"transfer_policy", report.transfer_policy},
                     {"pytorch", report.pytorch},
                     {"huge_pages", report.huge_pages},
                     {"mirrors", report.mirrors},
                     {"locked_memory", report.locked_memory},
                     {"notes", report.notes},
                     {"obstacles", report.obstacles},
                     {"probe",
                      {{"command", report.probe.command},
                       {"not_run", report.probe.not_run},
                       {"exit_status", report.probe.exit_status},
                       {"output", report.probe.output},
                       {"processes", std::move(processes)}}}};
  return JsonText(root);
}

}  // namespace slipstream::cli
