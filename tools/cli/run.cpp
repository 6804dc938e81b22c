#include "tools/cli/run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "policy/children.h"
#include "policy/environment.h"
#include "policy/load.h"
#include "policy/log.h"
#include "policy/text.h"
#include "tools/cli/child.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/install.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/summary.h"
#include "tools/cli/summary_file.h"
#include "tools/cli/tensor_allocator.h"
#include "tools/cli/text.h"
#include "tracer/clock.h"
#include "tracer/counter_reader.h"
#include "tracer/spool_reader.h"

namespace slipstream::cli {
namespace {

void Complain(const std::string& text) { std::fprintf(stderr, "slipstream: %s\n", policy::Escape(text).c_str()); }

int ReportStartFailure(const std::string& command, int error) {
  Complain(command + ": " + std::strerror(error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

bool WriteWhole(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

int ShellStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// The variables as they are: a name that stands twice, or none, is the command's business as it would be without us.
std::vector<std::string> Unchanged() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

// Every library with NVTX in it loads the tool that this names (NVTX 3, nvtxInit.h).
constexpr char kNvtxTool[] = "NVTX_INJECTION64_PATH";

// The variables of this process, and the one that --record stands for: what reads them here and in the command then
// agrees.
policy::Environment EnvironmentFor(const RunOptions& options) {
  policy::Environment own = policy::Environment::FromProcess();
  if (!options.record || !own.complete()) return own;
  std::map<std::string, std::string> variables(own.variables().begin(), own.variables().end());
  variables["SLIPSTREAM_TRACER_RECORD"] = "on";
  return policy::Environment(variables);
}

}  // namespace

PreloadEnvironment MakePreloadEnvironment(const PreloadRequest& request) {
  PreloadEnvironment result;
  // ld.so(8): the entries of LD_PRELOAD are separated by colons or spaces, and nothing escapes them.
  if (request.library.find_first_of(": ") != std::string::npos) {
    result.error = "LD_PRELOAD cannot name " + request.library +
                   ": its path holds a space or a colon. Install slipstream in another place";
    return result;
  }
  std::map<std::string, std::string> variables(request.inherited.begin(), request.inherited.end());
  for (const auto& [name, value] : request.additions) variables.try_emplace(name, value);
  for (const auto& [name, value] : request.replacements) variables[name] = value;
  std::string& preload = variables["LD_PRELOAD"];
  // A run inside a run has it in front already.
  const std::string first = preload.substr(0, preload.find_first_of(": "));
  if (preload.empty()) {
    preload = request.library;
  } else if (first != request.library) {
    preload = request.library + ":" + preload;
  }
  if (request.policy_list) variables[policy::kPolicyVariable] = *request.policy_list;
  variables.erase(policy::kRunDirectoryVariable);  // of a `slipstream run` around this one
  if (!request.run_directory.empty()) variables[policy::kRunDirectoryVariable] = request.run_directory;
  variables.erase(policy::kChildrenVariable);
  if (const std::string children = policy::ChildrenVariable(request.children, request.library); !children.empty()) {
    variables[policy::kChildrenVariable] = children;
  }
  // An outer run's is ours too, and says nothing about this one.
  if (const auto tool = variables.find(kNvtxTool); tool != variables.end() && tool->second == request.library) {
    variables.erase(tool);
  }
  if (request.tool_of_nvtx) variables.try_emplace(kNvtxTool, request.library);
  for (const auto& [name, value] : variables) result.variables.push_back(name + "=" + value);
  return result;
}

Preparation PrepareRun(const std::optional<std::string>& policy, const policy::Environment& environment) {
  Preparation made;
  made.status = kCannotStart;
  made.loaded = policy::Load({.path = policy, .env = environment, .search = policy::Search::kCommand});
  if (!made.loaded.ok()) {
    for (const policy::Problem& problem : made.loaded.problems) Complain(problem.Format());
    Complain(
        "not started: the policy cannot be used. `slipstream policy check` checks the files that are looked for here, "
        "`slipstream policy check FILE` one; `slipstream run --policy FILE` takes FILE for the user's and the "
        "project's");
    return made;
  }
  policy::ConfigureLog(made.loaded.policy.log);
  for (const policy::LayerFile& file : made.loaded.layers) {
    if (file.found)
      policy::LogInfo(std::string("policy of the layer ") + policy::NameOf(file.layer) + ": " + file.path);
  }
  std::vector<std::string> tried;
  made.library = FindLibrary(&tried);
  if (made.library.empty()) {
    Complain("libslipstream.so not found; looked for:");
    for (const std::string& path : tried) std::fprintf(stderr, "  %s\n", policy::Escape(path).c_str());
    return made;
  }
  made.status = kSuccess;
  return made;
}

void SayNotes(const policy::Loaded& loaded) {
  for (const policy::Problem& note : loaded.notes) Complain(note.Format());
}

bool WantsCounters(const policy::Policy& policy) {
  return policy.enabled && policy.tracer.counters != policy::Counters::kOff;
}

bool WantsTrace(const policy::Policy& policy) { return policy.enabled && policy.tracer.record == policy::Record::kOn; }

PreloadEnvironment EnvironmentOf(const Preparation& preparation, const policy::Environment& environment,
                                 const std::string& run_directory, TensorAllocator* told) {
  const policy::Policy& policy = preparation.loaded.policy;
  PreloadRequest request;
  request.inherited = environment.variables();
  request.additions.assign(policy.environment.begin(), policy.environment.end());
  if (policy.enabled && policy.allocator.mode == policy::AllocatorMode::kStreamOrdered) {
    // As the command will have them: with what the policy adds where the user says nothing.
    std::map<std::string, std::string> variables(request.inherited.begin(), request.inherited.end());
    for (const auto& [variable, value] : request.additions) variables.try_emplace(variable, value);
    *told = TellPyTorch(variables);
    request.replacements.assign(told->variables.begin(), told->variables.end());
  }
  request.library = preparation.library;
  request.policy_list = policy::PolicyListFor(preparation.loaded);
  request.run_directory = run_directory;
  request.children = policy.children;
  request.tool_of_nvtx = WantsTrace(policy) && policy.tracer.ranges && !run_directory.empty();
  return MakePreloadEnvironment(request);
}

int Run(const RunOptions& options) {
  const std::string& name = options.command[0];
  if (policy::DisabledByEnvironment()) {
    if (options.record) Complain(std::string("no trace: ") + policy::kDisableVariable + " is set");
    return ReportStartFailure(name, ExecCommand(options.command, Unchanged()));
  }

  const policy::Environment environment = EnvironmentFor(options);
  const Preparation preparation = PrepareRun(options.policy, environment);
  if (preparation.status != kSuccess) return preparation.status;
  const policy::Loaded& loaded = preparation.loaded;
  SayNotes(loaded);

  int summary_fd = -1;
  if (options.summary) {
    std::string why;
    summary_fd = OpenSummaryFile(*options.summary, &why);
    if (summary_fd < 0) {
      Complain("cannot write the summary to " + *options.summary + ": " + why + ". Name another file");
      return kCannotStart;
    }
  }
  const bool wants_counters = WantsCounters(loaded.policy);
  const bool wants_summary = !options.quiet || options.summary;
  const bool wants_trace = WantsTrace(loaded.policy);
  if (options.record && !wants_trace) Complain("no trace: the policy says enabled = false");
  const std::string tmpdir(environment.Get("TMPDIR").value_or(""));
  RunDirectory directory;
  std::string error;
  if (wants_trace) {
    if (!directory.CreateForTrace(TraceDirectoryPlaces(tmpdir), &error)) {
      Complain("no trace and no counters in this run: " + error);
    }
  } else if (wants_summary && wants_counters) {
    if (!directory.Create(RunDirectoryPlaces(tmpdir), &error)) Complain("no counters in this run: " + error);
  }

  TensorAllocator told;
  const PreloadEnvironment preload = EnvironmentOf(preparation, environment, directory.path(), &told);
  if (!told.message.empty() && (told.refused || !options.quiet)) Complain(told.message);
  if (!preload.error.empty()) {
    Complain(preload.error);
    return kCannotStart;
  }

  // Nobody will read anything: become the command, with no process in between. A trace is looked at in any case: one
  // that lacks something never goes without a word.
  if (!wants_summary && directory.path().empty())
    return ReportStartFailure(name, ExecCommand(options.command, preload.variables));

  const uint64_t start = tracer::NowNs();
  const ChildResult child = RunCommand(options.command, preload.variables);
  if (!child.started) return ReportStartFailure(name, child.start_errno);

  {
    RunSummary summary;
    summary.command = std::filesystem::path(name).filename().string();
    summary.exit_status = ShellStatus(child.wait_status);
    summary.wall_ns = tracer::NowNs() - start;
    summary.counters_off = !wants_counters;
    summary.children_chosen = !policy::ChildrenVariable(loaded.policy.children, preparation.library).empty();
    for (const policy::LayerFile& file : loaded.layers) {
      if (file.found) summary.policy_files.push_back(file);
    }
    if (!directory.path().empty()) summary.processes = tracer::ReadRunDirectory(directory.path(), &summary.problems);
    if (!directory.path().empty() && wants_trace) {
      summary.trace = SumUpTrace(directory.path(), summary.processes, wants_counters);
    }
    if (!directory.path().empty() && !wants_trace && !tracer::ListSpools(directory.path(), &error).empty()) {
      Complain(
          "a process of the command recorded a trace that is not kept: only this command's own policy has it kept");
    }
    if (summary_fd >= 0 && !WriteWhole(summary_fd, SummaryJson(summary))) {
      Complain("cannot write the summary to " + *options.summary + ": " + std::strerror(errno));
    }
    if (!options.quiet) std::fputs(ForTerminal(FormatSummary(summary)).c_str(), stderr);
    if (summary.trace && (!options.quiet || !summary.trace->troubles.empty())) {
      std::fputs(ForTerminal(FormatTrace(*summary.trace)).c_str(), stderr);
      if (!options.quiet) std::fputs(ForTerminal(FormatHint(*summary.trace)).c_str(), stderr);
    }
  }
  directory.Remove();  // EndAs runs no destructor
  EndAs(child.wait_status);
}

}  // namespace slipstream::cli
