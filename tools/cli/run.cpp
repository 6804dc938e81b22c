#include "tools/cli/run.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "policy/children.h"
#include "policy/environment.h"
#include "policy/load.h"
#include "policy/log.h"
#include "policy/nearest.h"
#include "policy/options.h"
#include "policy/run_variable.h"
#include "policy/text.h"
#include "tools/cli/child.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/huge_pages.h"
#include "tools/cli/install.h"
#include "tools/cli/obstacles.h"
#include "tools/cli/preload_name.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/run_state.h"
#include "tools/cli/saved_summary.h"
#include "tools/cli/summary_file.h"
#include "tools/cli/watcher.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

void Complain(const std::string& text) { std::fprintf(stderr, "slipstream: %s\n", policy::Escape(text).c_str()); }

int ReportStartFailure(const std::string& command, int error) {
  Complain(command + ": " + std::strerror(error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

// The variables as they are: a name that stands twice, or none, is the command's business as it would be without us.
std::vector<std::string> Unchanged() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

// Every library with NVTX in it loads the tool that this names (NVTX 3, nvtxInit.h).
constexpr char kNvtxTool[] = "NVTX_INJECTION64_PATH";

// What is written here must not end the command before it has begun: nobody may read standard error, and no file may
// grow. The command has the dispositions that this process was given.
class HarmlessWrites {
 public:
  HarmlessWrites() {
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &ignored, &before_[i]);
  }
  ~HarmlessWrites() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  HarmlessWrites(const HarmlessWrites&) = delete;
  HarmlessWrites& operator=(const HarmlessWrites&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals = {SIGPIPE, SIGXFSZ};
  std::array<struct sigaction, 2> before_{};
};

// The variables of this process, and those that --record and --set stand for: what reads them here and in the command
// then agrees.
policy::Environment EnvironmentFor(const RunOptions& options) {
  policy::Environment own = policy::Environment::FromProcess();
  if ((!options.record && options.set.empty()) || !own.complete()) return own;
  std::map<std::string, std::string> variables(own.variables().begin(), own.variables().end());
  if (options.record) variables["SLIPSTREAM_TRACER_RECORD"] = "on";
  for (const auto& [key, value] : options.set) variables[policy::VariableOf(*policy::FindOption(key))] = value;
  return policy::Environment(variables);
}

// The run as it begins.
RunState StateOf(const RunOptions& options, const Preparation& preparation, const policy::Environment& environment) {
  const policy::Policy& policy = preparation.loaded.policy;
  RunState state;
  state.command = std::filesystem::path(options.command[0]).filename().string();
  state.root = getpid();
  state.root_started = StartOf(getpid());
  state.pid_namespace = PidNamespace();
  state.boot = Boot();
  state.start_ns = tracer::NowNs();
  state.start_unix_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  state.quiet = options.quiet;
  state.report = options.report;
  state.counters = WantsCounters(policy);
  state.trace = WantsTrace(policy);
  state.children_chosen = !policy::ChildrenVariable(policy.children, preparation.library).empty();
  state.saved_in = SavedSummariesPlace(environment);
  state.error_output = LookAtErrorOutput();
  state.version = options.version;
  state.enabled = policy.enabled;
  state.site_directory = policy.run.summaries;
  state.site_for_group = policy.run.summaries_mode == policy::SummariesMode::kGroup;
  for (const policy::LayerFile& file : preparation.loaded.layers) {
    if (file.found) state.policy_files.push_back(file);
  }
  return state;
}

// What tells the command that it is the root; empty where the command of ours has no name that can be executed.
std::string RootOf(const RunState& state) {
  const std::string command = OwnExecutable();
  if (command.empty()) return "";
  return policy::FormatRunRoot({.pid = state.root, .started = state.root_started, .command = command});
}

// *taken: the file's absolute name, for the process that writes it may be anywhere. Why it cannot be, or empty.
std::string TakeSummaryFile(const std::string& path, std::string* taken) {
  if (std::string why = WhySummaryFileRefused(path); !why.empty()) return why;
  std::error_code error;
  *taken = std::filesystem::absolute(path, error).string();
  return error ? error.message() : "";
}

// False: a directory that was named cannot be had.
bool MakeDirectory(const RunOptions& options, const RunState& state, const std::string& tmpdir,
                   RunDirectory* directory) {
  std::string error;
  if (state.trace && options.out) {
    EndAbandonedRuns(tmpdir);
    if (directory->CreateNamed(*options.out, &error)) return true;
    Complain("cannot record in " + *options.out + ": " + error + ". Name another directory");
    return false;
  }
  if (state.trace) {
    EndAbandonedRuns(tmpdir);
    if (!directory->CreateForTrace(TraceDirectoryPlaces(tmpdir), &error)) {
      Complain("no trace, no counters and no summary of this run: " + error);
    }
  } else if (!directory->Create(RunDirectoryPlaces(tmpdir), &error)) {
    Complain("no counters and no summary of this run: " + error);
  }
  return true;
}

// When the first process of a container ends, so do all others: there is nobody to watch.
bool WantsWatcher(policy::RunWatcher watcher) {
  if (getpid() == 1 || watcher == policy::RunWatcher::kOff) return false;
  return watcher == policy::RunWatcher::kOn || InitCollects();
}

// Writes down what the end of the run needs, and has a process watch for it.
void Prepare(RunState state, policy::RunWatcher watcher, RunDirectory* directory) {
  state.watched = WantsWatcher(watcher);
  if (const std::string why = WriteRunState(directory->path(), state); !why.empty()) {
    Complain("no summary of this run: " + directory->path() + "/" + kRunStateName + ": " + why);
    return;
  }
  const std::string why = state.watched ? StartWatcher(directory->path(), directory->lock()) : "";
  if (!why.empty()) {
    Complain("no watcher of this run, so that there will be no summary if it is killed: " + why);
    state.watched = false;
    unlink((directory->path() + "/" + kRunStateName).c_str());
    WriteRunState(directory->path(), state);
  }
}

}  // namespace

std::string ParseSetting(const std::string& text, std::pair<std::string, std::string>* setting) {
  const size_t equals = text.find('=');
  *setting = {text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
  const std::string& key = setting->first;
  if (equals == std::string::npos) return "\"" + text + "\" is no KEY=VALUE, such as transfer.d2h=off";
  const policy::Option* const option = policy::FindOption(key);
  if (option == nullptr || !option->overridable) {
    std::vector<std::string> keys;
    for (const policy::Option& one : policy::Options()) {
      if (one.overridable) keys.push_back(policy::KeyOf(one));
    }
    const std::string nearest = policy::Nearest(key, keys);
    return "no key \"" + key + "\"" + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
  }
  policy::Problem problem;
  if (policy::AcceptText(*option, setting->second, problem)) return "";
  return key + ": found \"" + setting->second + "\", expected " + problem.expected;
}

PreloadEnvironment MakePreloadEnvironment(const PreloadRequest& request) {
  PreloadEnvironment result;
  // ld.so(8): the entries of LD_PRELOAD are separated by colons or spaces, and nothing escapes them.
  if (!FitsPreload(request.library)) {
    result.error = "LD_PRELOAD cannot name " + request.library +
                   ": its path holds a space or a colon, and no link to it could be made in XDG_STATE_HOME, "
                   "~/.local/state or /tmp. Install slipstream in another place";
    return result;
  }
  std::map<std::string, std::string> variables(request.inherited.begin(), request.inherited.end());
  for (const auto& [name, value] : request.additions) variables.try_emplace(name, value);
  if (request.expandable_segments) {
    result.expandable = AskForExpandableSegments(variables);
    for (const auto& [name, value] : result.expandable.variables) variables[name] = value;
  }
  variables.merge(AskForHugePages(variables, request.huge_pages_here));
  std::string& preload = variables["LD_PRELOAD"];
  // A run inside a run has it in front already.
  const std::string first = preload.substr(0, preload.find_first_of(": "));
  if (preload.empty()) {
    preload = request.library;
  } else if (first != request.library) {
    preload = request.library + ":" + preload;
  }
  if (request.policy_list) variables[policy::kPolicyVariable] = *request.policy_list;
  variables.erase(policy::kRunPolicyVariable);
  result.policy_is_fixed = !request.run_policy.empty();
  if (result.policy_is_fixed) variables[policy::kRunPolicyVariable] = request.run_policy;
  // Of a `slipstream run` around this one; if it is its root, that run is ended by its watcher.
  variables.erase(policy::kRunDirectoryVariable);
  variables.erase(policy::kRunVariable);
  if (!request.run_directory.empty()) variables[policy::kRunDirectoryVariable] = request.run_directory;
  if (!request.run_root.empty()) variables[policy::kRunVariable] = request.run_root;
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

std::vector<std::string> AsBefore(const std::vector<std::string>& before, const std::vector<std::string>& made) {
  const auto name_of = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  std::map<std::string, std::string> wanted;
  for (const std::string& entry : made) wanted.emplace(name_of(entry), entry);
  std::map<std::string, bool> changed;  // by name: whether it is another value; decided by its first entry
  std::vector<std::string> result;
  for (const std::string& entry : before) {
    if (const size_t equals = entry.find('='); equals == std::string::npos || equals == 0) {  // no variable
      result.push_back(entry);
      continue;
    }
    const std::string name = name_of(entry);
    const auto now = wanted.find(name);
    const auto [seen, is_first] = changed.try_emplace(name, now == wanted.end() || now->second != entry);
    if (!seen->second) {
      result.push_back(entry);
    } else if (is_first && now != wanted.end()) {
      result.push_back(now->second);
    }
  }
  for (const std::string& entry : made) {
    if (!changed.contains(name_of(entry))) result.push_back(entry);
  }
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
  made.library = PreloadName(made.library, environment);
  made.status = kSuccess;
  return made;
}

void SayNotes(const policy::Loaded& loaded) {
  for (const policy::Problem& note : loaded.notes) Complain(note.Format());
}

bool WantsCounters(const policy::Policy& policy) {
  return policy.enabled && policy.tracer.counters != policy::Counters::kOff;
}

bool WantsTrace(const policy::Policy& policy) { return policy.enabled && policy.tracer.record != policy::Record::kOff; }

bool WantsExpandableSegments(const policy::Policy& policy) {
  return policy.enabled && policy.allocator.mode == policy::AllocatorMode::kExpandable;
}

std::string HugePagesFor(const policy::Policy& policy) {
  return policy.enabled && policy.host.huge_pages == policy::HugePages::kAuto ? HugePagesHere() : "";
}

PreloadEnvironment EnvironmentOf(const Preparation& preparation, const policy::Environment& environment,
                                 const std::string& run_directory, const std::string& run_root) {
  const policy::Policy& policy = preparation.loaded.policy;
  PreloadRequest request;
  request.inherited = environment.variables();
  request.additions.assign(policy.environment.begin(), policy.environment.end());
  request.expandable_segments = WantsExpandableSegments(policy);
  request.huge_pages_here = HugePagesFor(policy);
  request.library = preparation.library;
  request.policy_list = policy::PolicyListFor(preparation.loaded);
  request.run_policy = policy::RunPolicyFor(preparation.loaded);
  request.run_directory = run_directory;
  request.run_root = run_directory.empty() ? "" : run_root;
  request.children = policy.children;
  request.tool_of_nvtx = WantsTrace(policy) && policy.tracer.ranges && !run_directory.empty();
  return MakePreloadEnvironment(request);
}

int Run(const RunOptions& options) {
  std::optional<HarmlessWrites> harmless(std::in_place);
  const std::string& name = options.command[0];
  if (policy::DisabledByEnvironment()) {
    if (options.record) Complain(std::string("no trace: ") + policy::kDisableVariable + " is set");
    harmless.reset();
    return ReportStartFailure(name, ExecCommand(options.command, Unchanged()));
  }

  const policy::Environment environment = EnvironmentFor(options);
  const Preparation preparation = PrepareRun(options.policy, environment);
  if (preparation.status != kSuccess) return preparation.status;
  const policy::Loaded& loaded = preparation.loaded;
  SayNotes(loaded);
  if (const std::string why = WhyNotPreloaded(name); !why.empty()) {
    Complain(why + ": it runs without slipstream");
    harmless.reset();
    return ReportStartFailure(name, ExecCommand(options.command, Unchanged()));
  }

  RunState state = StateOf(options, preparation, environment);
  if (options.summary) {
    if (const std::string why = TakeSummaryFile(*options.summary, &state.summary_file); !why.empty()) {
      Complain("cannot write the summary to " + *options.summary + ": " + why + ". Name another file");
      return kCannotStart;
    }
  }
  if (options.record && !state.trace) Complain("no trace: the policy says enabled = false");
  const bool wants_end = !options.quiet || options.summary || state.trace || !state.site_directory.empty();
  RunDirectory directory;
  if (wants_end && !MakeDirectory(options, state, std::string(environment.Get("TMPDIR").value_or("")), &directory))
    return kCannotStart;

  const PreloadEnvironment preload = EnvironmentOf(preparation, environment, directory.path(), RootOf(state));
  const ExpandableSegments& expandable = preload.expandable;
  if (!expandable.message.empty() && (expandable.refused || !options.quiet)) Complain(expandable.message);
  if (!preload.error.empty()) {
    Complain(preload.error);
    return kCannotStart;
  }
  if (!preload.policy_is_fixed) {
    Complain("the policy is longer than " + std::to_string(policy::kMostRunPolicy) +
             " bytes, so each process reads its files for itself: leave them as they are until the command has ended");
  }

  if (!directory.path().empty()) Prepare(state, loaded.policy.run.watcher, &directory);
  harmless.reset();
  const int error = ExecCommand(options.command, AsBefore(Unchanged(), preload.variables));
  directory.Remove();  // before the watcher learns that there is no run
  return ReportStartFailure(name, error);
}

}  // namespace slipstream::cli
