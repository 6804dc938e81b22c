#include "tools/cli/doctor.h"

#include <cuda.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string_view>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/text.h"
#include "policy/transfer_plan.h"
#include "policy/write_watch.h"
#include "tools/cli/capture.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/expandable_segments.h"
#include "tools/cli/install.h"
#include "tools/cli/obstacles.h"
#include "tools/cli/preload_name.h"
#include "tools/cli/run.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/screen.h"
#include "tools/cli/summary.h"
#include "tools/text/columns.h"
#include "tools/text/decisions.h"
#include "tools/text/text.h"
#include "tracer/base/python_lines.h"

namespace slipstream::cli {
namespace {

using text::AllocatorLines;
using text::ForTerminal;
using text::HumanBytes;
using text::PadRight;
using text::TransferLines;
using text::WithThousands;

constexpr int kProbeSeconds = 120;
constexpr size_t kOutputShown = 2000;
constexpr size_t kDoctorColumns = 63;  // of what stands behind a name

// What a probe of PyTorch does: a context, an allocation, a launch, a copy back.
constexpr char kPyTorchProbe[] = "import torch; x = torch.zeros(16, device='cuda'); print((x + 1).sum().item())";
constexpr char kPyTorchVersion[] =
    "import sys, torch; print(torch.__version__, '(CUDA', str(torch.version.cuda) + '), ' + sys.executable)";

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string WithoutEnd(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// The word in brackets: "always [madvise] never".
std::string HugePages() {
  const std::string line = FirstLine("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "unknown";
  return line.substr(open + 1, close - open - 1);
}

std::string Mirrors(const policy::Transfer& policy) {
  if (const char* const why_not = policy::WhyNoWriteWatch()) return std::string("none: ") + why_not;
  return policy.max_mirrored == 0 ? "possible, and off: transfer.max_mirrored = 0" : "of sources that do not change";
}

std::string LockedMemory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : HumanBytes(limit.rlim_cur);
}

template <typename Function>
Function* DriverFunction(void* driver, const char* name) {
  return reinterpret_cast<Function*>(dlsym(driver, name));
}

DriverFacts LookAtDriver() {
  DriverFacts facts;
  facts.version = FirstLine("/sys/module/nvidia/version");
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    facts.error = "libcuda.so.1 cannot be loaded: no NVIDIA driver here";
    return facts;
  }
  auto* const get_version = DriverFunction<decltype(::cuDriverGetVersion)>(driver, "cuDriverGetVersion");
  auto* const init = DriverFunction<decltype(::cuInit)>(driver, "cuInit");
  auto* const get_count = DriverFunction<decltype(::cuDeviceGetCount)>(driver, "cuDeviceGetCount");
  auto* const get_name = DriverFunction<decltype(::cuDeviceGetName)>(driver, "cuDeviceGetName");
  auto* const get_memory = DriverFunction<CUresult(size_t*, CUdevice)>(driver, "cuDeviceTotalMem_v2");
  auto* const get_attribute = DriverFunction<decltype(::cuDeviceGetAttribute)>(driver, "cuDeviceGetAttribute");
  if (get_version == nullptr || init == nullptr || get_count == nullptr || get_name == nullptr ||
      get_memory == nullptr || get_attribute == nullptr) {
    facts.error = "libcuda.so.1 lacks functions that every driver has";
    return facts;
  }
  get_version(&facts.cuda_version);
  int count = 0;
  CUresult status = init(0);
  if (status == CUDA_SUCCESS) status = get_count(&count);
  if (status != CUDA_SUCCESS) {
    facts.error = "the driver answers with error " + std::to_string(status) + " (100: no device)";
    return facts;
  }
  for (CUdevice device = 0; device < count; ++device) {
    DeviceFacts& found = facts.devices.emplace_back();
    char name[256] = "";
    size_t memory = 0;
    int pageable = 0;
    int host_tables = 0;
    int maps_by_hand = 0;
    get_name(name, sizeof(name), device);
    get_memory(&memory, device);
    get_attribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device);
    get_attribute(&host_tables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, device);
    get_attribute(&maps_by_hand, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    found = {name, memory, pageable != 0, host_tables != 0, maps_by_hand != 0};
  }
  return facts;
}

void LookAtEnvironment(const policy::Environment& environment, DoctorReport& report) {
  if (const auto preload = environment.Get("LD_PRELOAD"); preload && !preload->empty()) {
    report.notes.push_back("LD_PRELOAD is set; slipstream goes in front of it: " + std::string(*preload));
  }
  if (policy::DisabledByEnvironment()) {
    report.notes.emplace_back("SLIPSTREAM_DISABLE is set: every process passes through");
  }
  if (const auto blocking = environment.Get("CUDA_LAUNCH_BLOCKING"); blocking && *blocking == "1") {
    report.notes.emplace_back("CUDA_LAUNCH_BLOCKING=1: the program asks for blocking launches; engines stand aside");
  }
}

void RunProbe(const DoctorOptions& options, const policy::Environment& environment, const policy::Loaded& loaded,
              DoctorReport& report) {
  ProbeFacts& probe = report.probe;
  RunDirectory directory;
  std::string error;
  const auto places = RunDirectoryPlaces(std::string(environment.Get("TMPDIR").value_or("")));
  if (!directory.Create(places, &error)) {
    probe.not_run = "no place for its counters: " + error;
    return;
  }
  PreloadRequest request;
  request.inherited = environment.variables();
  request.library = PreloadName(report.library, environment);
  request.policy_list = policy::PolicyListFor(loaded);
  request.run_policy = policy::RunPolicyFor(loaded);
  request.run_directory = directory.path();
  request.expandable_segments = WantsExpandableSegments(loaded.policy);
  request.huge_pages_here = HugePagesFor(loaded.policy);
  const PreloadEnvironment preload = MakePreloadEnvironment(request);
  if (!preload.error.empty()) {
    probe.not_run = preload.error;
    return;
  }
  probe.command = options.command;
  const Captured captured = Capture(options.command, preload.variables, kProbeSeconds);
  probe.exit_status = captured.exit_status;
  if (captured.exit_status != 0) probe.output = captured.output.substr(0, kOutputShown);
  std::vector<std::string> problems;
  probe.processes = tracer::ReadRunDirectory(directory.path(), &problems);
  report.notes.insert(report.notes.end(), problems.begin(), problems.end());
}

std::string Joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

uint64_t CallsOf(const tracer::ProcessCounts& process) {
  uint64_t calls = 0;
  for (const tracer::FunctionCounts& function : process.functions) calls += function.calls;
  return calls;
}

std::string CudaVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

constexpr size_t kIndent = 17;

std::string Line(const std::string& name, const std::string& text) {
  return "  " + PadRight(name, kIndent - 2) + text + "\n";
}

// Without a process the policy is all there is to say; what the engine finds on a device is not ours to guess.
std::string TransferPolicy(const policy::Loaded& loaded) {
  if (policy::DisabledByEnvironment()) return "off: SLIPSTREAM_DISABLE is set";
  if (!loaded.ok()) return "off: the policy cannot be used";
  if (!loaded.policy.enabled) return "off: enabled = false";
  const policy::Transfer& transfer = loaded.policy.transfer;
  if (const char* const why = OffByPolicy(transfer)) return std::string("off: ") + why;
  return "on in the policy; whether it serves shows when a process has used CUDA";
}

// What stands in the way of allocator.mode = "expandable".
void LookAtExpandableSegments(const policy::Environment& environment, const policy::Loaded& loaded,
                              DoctorReport& report) {
  if (!WantsExpandableSegments(loaded.policy) || policy::DisabledByEnvironment()) return;
  std::map<std::string, std::string> variables(environment.variables().begin(), environment.variables().end());
  for (const auto& [name, value] : loaded.policy.environment) variables.try_emplace(name, value);
  if (const ExpandableSegments asked = AskForExpandableSegments(variables); asked.refused) {
    report.notes.push_back(asked.message);
  }
  std::vector<MapsMemory> devices;
  for (const DeviceFacts& device : report.driver.devices) {
    devices.push_back({static_cast<int>(devices.size()), device.maps_by_hand});
  }
  for (std::string& why : WhyNotExpandable(report.pytorch, devices)) report.notes.push_back(std::move(why));
}

struct HookFacts {
  size_t count = 0;
  std::vector<std::string> absent;
};

HookFacts HooksOf(const tracer::ProcessCounts& process, bool of_driver) {
  HookFacts facts;
  for (const tracer::FunctionCounts& function : process.functions) {
    const bool is_of_driver = function.name.size() > 2 && function.name.starts_with("cu") && function.name[2] >= 'A' &&
                              function.name[2] <= 'Z';
    if (is_of_driver != of_driver) continue;
    ++facts.count;
    if (!function.bound) facts.absent.push_back(function.name);
  }
  return facts;
}

std::string FormatHooks(const HookFacts& hooks, const std::string& who) {
  return std::to_string(hooks.count - hooks.absent.size()) + " of " + std::to_string(hooks.count) + " bind; " +
         (hooks.absent.empty() ? "none is absent" : who + " does not have the others");
}

// Nothing where the policy leaves the driver alone, which is what most do.
std::string FormatDriverHooks(const tracer::ProcessCounts& process) {
  for (const std::string& level : process.FactsOf("intercept")) {
    if (level != "driver") continue;
    const std::vector<std::string> library = process.FactsOf("driver_library");
    if (library.empty()) {
      return Line("driver hooks", "the driver was not loaded yet when the process made its first call");
    }
    const HookFacts hooks = HooksOf(process, true);
    std::string text = Line("CUDA driver", library.front());
    text += Line("driver hooks", FormatHooks(hooks, "this driver"));
    if (!hooks.absent.empty()) text += Line("", Joined(hooks.absent, " "));
    return text;
  }
  return "";
}

std::string FormatProbe(const ProbeFacts& probe) {
  if (!probe.not_run.empty()) return Line("probe", "not run: " + probe.not_run);
  std::string text = Line("probe", policy::Escape(Joined(probe.command, " ")));
  text += Line("", "exit status " + std::to_string(probe.exit_status));
  if (!probe.output.empty()) text += Line("", "it said: " + WithoutEnd(probe.output));
  if (probe.processes.empty()) {
    return text + Line("hooks",
                       "none was called. The command used no GPU, or the CUDA runtime is linked statically into "
                       "what calls it, or the driver is called directly: intercept.level = \"driver\" sees those");
  }
  for (const tracer::ProcessCounts& process : probe.processes) {
    text += Line("process", policy::Escape(process.executable) + " (pid " + std::to_string(process.pid) +
                                "): " + WithThousands(CallsOf(process)) + " hooked calls");
    for (const std::string& fact : process.FactsOf("runtime")) {
      const RuntimeFact runtime = ParseRuntimeFact(fact);
      text += Line("CUDA runtime", CudaVersion(runtime.version) + ", " + runtime.path);
    }
    const HookFacts runtime_hooks = HooksOf(process, false);
    text += Line("hooks", FormatHooks(runtime_hooks, "this runtime"));
    if (!runtime_hooks.absent.empty()) text += Line("", Joined(runtime_hooks.absent, " "));
    text += FormatDriverHooks(process);
    for (const char* engine : {"allocator", "transfer", "transport", "nvtx"}) {
      for (const std::string& standing : process.FactsOf(engine)) text += Line(engine, standing);
      const std::vector<std::string> lines =
          std::string_view(engine) == "transfer"    ? TransferLines(process.decisions, kDoctorColumns)
          : std::string_view(engine) == "allocator" ? AllocatorLines(process.decisions, kDoctorColumns)
                                                    : std::vector<std::string>();
      for (const std::string& line : lines) text += Line("", line);
    }
    // The last one counts.
    const std::vector<std::string> python_lines = process.FactsOf(tracer::kFactPythonLines);
    if (!python_lines.empty()) text += Line("Python lines", text::PythonLinesText(python_lines.back()));
  }
  return text;
}

}  // namespace

DoctorReport Examine(const DoctorOptions& options, const std::string& version) {
  DoctorReport report;
  report.slipstream_version = version;
  std::vector<std::string> tried;
  report.library = FindLibrary(&tried);
  const policy::Environment environment = policy::Environment::FromProcess();
  const policy::Loaded loaded =
      policy::Load({.path = options.policy, .env = environment, .search = policy::Search::kCommand});
  report.policy = loaded.Files();
  report.transfer_policy = TransferPolicy(loaded);
  for (const policy::Problem& problem : loaded.problems) report.policy_problems.push_back(problem.Format());
  for (const policy::Problem& note : loaded.notes) report.notes.push_back(note.Format());
  for (std::string& line : loaded.ForeignText()) report.notes.push_back(std::move(line));
  report.driver = LookAtDriver();
  report.huge_pages = HugePages();
  report.mirrors = Mirrors(loaded.policy.transfer);
  report.locked_memory = LockedMemory();
  LookAtEnvironment(environment, report);
  report.obstacles = MachineObstacles();
  for (std::string& note : MachineNotes(loaded.policy)) report.notes.push_back(std::move(note));
  if (!options.command.empty() && !report.library.empty()) {
    for (std::string& line : ProgramObstacles(options.command[0], report.library)) {
      report.obstacles.push_back(std::move(line));
    }
  }

  std::vector<std::string> bare;
  for (const auto& [name, value] : environment.variables()) bare.push_back(name + "=" + value);
  const Captured pytorch = Capture({"python3", "-c", kPyTorchVersion}, bare, kProbeSeconds);
  const bool has_pytorch = pytorch.exit_status == 0;
  report.pytorch = has_pytorch ? WithoutEnd(pytorch.output) : "python3 cannot import torch";
  LookAtExpandableSegments(environment, loaded, report);

  DoctorOptions probe = options;
  if (probe.command.empty() && has_pytorch && report.driver.error.empty()) {
    probe.command = {"python3", "-c", kPyTorchProbe};
  }
  if (report.library.empty()) {
    report.probe.not_run = "libslipstream.so not found; looked for " + Joined(tried, ", ");
  } else if (!loaded.ok()) {
    report.probe.not_run = "the policy cannot be used";
  } else if (!loaded.policy.enabled || loaded.policy.tracer.counters == policy::Counters::kOff ||
             policy::DisabledByEnvironment()) {
    report.probe.not_run = "the policy or SLIPSTREAM_DISABLE turns counting off";
  } else if (probe.command.empty()) {
    report.probe.not_run = "PyTorch or a device is missing; name a command of yours: slipstream doctor -- COMMAND";
  } else {
    RunProbe(probe, environment, loaded, report);
  }
  report.failures = FailuresOf(report);
  return report;
}

std::vector<std::string> FailuresOf(const DoctorReport& report) {
  std::vector<std::string> failures;
  if (report.library.empty()) failures.emplace_back("libslipstream.so is not found");
  if (!report.policy_problems.empty()) failures.emplace_back("the policy cannot be used");
  if (!report.driver.error.empty()) {
    failures.push_back(report.driver.error);
  } else if (report.driver.devices.empty()) {
    failures.emplace_back("the driver has no device");
  }
  if (!report.obstacles.empty()) {
    failures.push_back(report.obstacles.size() == 1
                           ? "there is an obstacle"
                           : "there are " + std::to_string(report.obstacles.size()) + " obstacles");
  }
  if (report.probe.command.empty()) return failures;
  if (report.probe.exit_status != 0) {
    failures.push_back("the probe failed (exit status " + std::to_string(report.probe.exit_status) + ")");
  } else if (report.probe.processes.empty()) {
    failures.emplace_back("the probe called no hook");
  }
  return failures;
}

std::string FormatReport(const DoctorReport& report) {
  std::string text = "slipstream " + report.slipstream_version + "\n";
  text += Line("library", report.library.empty() ? "not found" : report.library);
  text += Line("policy", report.policy);
  for (const std::string& problem : report.policy_problems) text += Line("", problem);
  const DriverFacts& driver = report.driver;
  std::string driver_text = driver.version.empty() ? "" : driver.version;
  if (driver.cuda_version != 0) {
    driver_text += (driver_text.empty() ? "" : ", ") + std::string("CUDA ") + CudaVersion(driver.cuda_version);
  }
  if (!driver.error.empty()) driver_text += (driver_text.empty() ? "" : "; ") + driver.error;
  text += Line("driver", driver_text);
  for (size_t i = 0; i < driver.devices.size(); ++i) {
    const DeviceFacts& device = driver.devices[i];
    text += Line("device " + std::to_string(i),
                 device.name + ", " + HumanBytes(device.memory_bytes) + ", reads pageable host memory: " +
                     (device.uses_host_page_tables ? "yes, by the host's page tables (ATS)"
                      : device.pageable_access     ? "yes (HMM)"
                                                   : "no"));
  }
  text += Line("PyTorch", report.pytorch);
  text += Line("huge pages", report.huge_pages);
  text += Line("mirrors", report.mirrors);
  text += Line("locked memory", report.locked_memory);
  for (const std::string& note : report.notes) text += Line("note", note);
  for (const std::string& obstacle : report.obstacles) text += Line("obstacle", policy::Escape(obstacle));
  text += FormatProbe(report.probe);
  if (report.probe.processes.empty()) text += Line("transfer", report.transfer_policy);
  if (report.failures.empty()) return text + "ALL IS WELL.\n";
  return text + "NOT WELL: " + Joined(report.failures, "; ") + ".\n";
}

int Doctor(const DoctorOptions& options, const std::string& version) {
  const DoctorReport report = Examine(options, version);
  const std::string text = options.json
                               ? ReportJson(report)
                               : text::WrappedAtSpaces(ForTerminal(FormatReport(report)), ScreenColumns(), kIndent);
  std::fputs(text.c_str(), stdout);
  return report.failures.empty() ? kSuccess : kFailed;
}

}  // namespace slipstream::cli
