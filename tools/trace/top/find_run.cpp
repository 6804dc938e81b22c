#include "tools/trace/top/find_run.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "policy/environment.h"
#include "policy/text.h"

namespace slipstream::top {
namespace {

using policy::Escape;

// A launcher of launchers is a few deep; parents that go in a circle are a damaged answer.
constexpr int kDeepest = 64;

bool IsDirectory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Of `pid`, without itself.
std::vector<int32_t> DescendantsOf(const ProcFiles& processes, int32_t pid) {
  std::multimap<int32_t, int32_t> children;
  for (const int32_t each : processes.All()) {
    if (const auto parent = processes.ParentOf(each)) children.emplace(*parent, each);
  }
  std::vector<int32_t> all;
  std::vector<int32_t> level = {pid};
  for (int depth = 0; depth < kDeepest && !level.empty(); ++depth) {
    std::vector<int32_t> next;
    for (const int32_t each : level) {
      const auto [first, last] = children.equal_range(each);
      for (auto child = first; child != last; ++child) next.push_back(child->second);
    }
    all.insert(all.end(), next.begin(), next.end());
    level = std::move(next);
  }
  return all;
}

std::string Gone(const std::string& directory) {
  return "its run has ended: " + Escape(directory) +
         " is not there any more\n  A run that was recorded stays: slipstream report RUN";
}

FoundRun FindByPid(const ProcFiles& processes, int32_t pid) {
  FoundRun found;
  const std::string name = "process " + std::to_string(pid);
  if (!processes.Exists(pid)) {
    found.error = "no " + name + " is here\n  slipstream top without a number lists the runs of this user.";
    return found;
  }
  const ProcFiles::Variables own = processes.VariablesOf(pid);
  bool has_library = own.has_library;
  std::set<std::string> directories;
  if (!own.run_directory.empty()) {
    directories.insert(own.run_directory);
    found.pid = pid;
  } else {
    for (const int32_t child : DescendantsOf(processes, pid)) {
      const ProcFiles::Variables variables = processes.VariablesOf(child);
      has_library = has_library || variables.has_library;
      if (!variables.run_directory.empty()) directories.insert(variables.run_directory);
    }
  }
  for (const std::string& directory : directories) {
    if (IsDirectory(directory)) found.directories.push_back(directory);
  }
  if (!found.directories.empty()) return found;
  if (!directories.empty()) {
    found.error = name + ": " + Gone(*directories.begin());
  } else if (!own.readable) {
    found.error = name + " belongs to another user\n  Only its own user can look at it.";
  } else if (has_library) {
    found.error =
        name +
        " is under slipstream and keeps no counters: it was started with --quiet and without --summary,\n"
        "  without `slipstream run`, or with tracer.counters = \"off\" in its policy (slipstream policy show)";
  } else {
    found.error =
        name + " is not under slipstream, and nothing that it started is\n  Start it with: slipstream run -- COMMAND";
  }
  return found;
}

}  // namespace

FoundRun FindRun(const ProcFiles& processes, const std::string& name) {
  // A directory whose name is a number is written with "./".
  if (const auto pid = ProcFiles::PidIn(name)) return FindByPid(processes, *pid);
  FoundRun found;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(name, error);
  if (std::filesystem::is_directory(status)) {
    found.directories = {name};
  } else if (std::filesystem::exists(status)) {
    found.error = Escape(name) + " is no directory of a run\n  Name the number of a process of it, or its directory.";
  } else {
    found.error = Escape(name) + ": " + (error ? error.message() : "No such file or directory") +
                  "\n  Name the number of a process of the run, or its directory. Without either, slipstream top\n"
                  "  lists the runs of this user.";
  }
  return found;
}

FoundRun FindOnlyRun(const ProcFiles& processes) {
  struct Run {
    int32_t first = 0;  // the process that the others come from, by its number
    size_t processes = 0;
  };
  std::map<std::string, Run> runs;
  for (const int32_t pid : processes.All()) {
    const ProcFiles::Variables variables = processes.VariablesOf(pid);
    if (variables.run_directory.empty() || !processes.IsAlive(pid) || !IsDirectory(variables.run_directory)) continue;
    const auto [run, is_new] = runs.try_emplace(variables.run_directory, Run{.first = pid});
    const auto parent = processes.ParentOf(run->second.first);
    // Numbers begin anew: whoever started the first one so far was there before it.
    if (parent == pid) run->second.first = pid;
    ++run->second.processes;
  }
  FoundRun found;
  if (runs.size() == 1) {
    found.directories = {runs.begin()->first};
  } else if (runs.empty()) {
    found.error =
        "no run of this user is here\n  Start one with: slipstream run -- COMMAND\n"
        "  One that was started with --quiet and without --summary keeps no counters.";
  } else {
    found.error = std::to_string(runs.size()) + " runs of this user are here. Name one by its process:";
    for (const auto& [directory, run] : runs) {
      found.error += "\n  slipstream top " + std::to_string(run.first) + "   " + Escape(processes.NameOf(run.first)) +
                     (run.processes == 1 ? "" : ", " + std::to_string(run.processes) + " processes") + ", " +
                     Escape(directory);
    }
  }
  return found;
}

bool IsInUse(const ProcFiles& processes, const std::string& directory) {
  const std::vector<int32_t> all = processes.All();
  return std::any_of(all.begin(), all.end(), [&](int32_t pid) {
    const ProcFiles::Variables variables = processes.VariablesOf(pid);
    std::error_code ignored;
    return !variables.run_directory.empty() && processes.IsAlive(pid) &&
           (variables.run_directory == directory ||
            std::filesystem::equivalent(variables.run_directory, directory, ignored));
  });
}

}  // namespace slipstream::top
