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
    found.error = "no " + name + " is here\n  slipstream top without a number shows all processes under slipstream.";
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
    found.error = name + " belongs to another user\n  Only its own user and root can look at it.";
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
                  "  shows all processes under slipstream.";
  }
  return found;
}

RunsHere FindAll(const ProcFiles& processes) {
  RunsHere found;
  std::map<std::string, size_t> known;
  for (const int32_t pid : processes.All()) {
    const ProcFiles::Variables variables = processes.VariablesOf(pid);
    if (variables.run_directory.empty() && !variables.has_library) continue;
    if (!processes.IsAlive(pid)) continue;
    if (variables.run_directory.empty()) {
      found.uncounted.push_back(pid);
      continue;
    }
    if (!IsDirectory(variables.run_directory)) continue;
    const auto [run, is_new] = known.try_emplace(variables.run_directory, found.runs.size());
    if (is_new) {
      found.runs.push_back({.directory = variables.run_directory, .first = pid, .owner = processes.OwnerOf(pid)});
    } else if (processes.ParentOf(found.runs[run->second].first) == pid) {
      // Numbers begin anew: whoever started the first one so far was there before it.
      found.runs[run->second].first = pid;
    }
  }
  return found;
}

std::optional<int32_t> ShownFor(const ProcFiles& processes, int32_t pid, const std::vector<int32_t>& shown) {
  const auto is_shown = [&](int32_t each) { return std::find(shown.begin(), shown.end(), each) != shown.end(); };
  if (is_shown(pid)) return pid;
  for (const int32_t child : DescendantsOf(processes, pid)) {
    if (is_shown(child)) return child;
  }
  std::optional<int32_t> parent = processes.ParentOf(pid);
  for (int depth = 0; depth < kDeepest && parent; ++depth) {
    if (is_shown(*parent)) return parent;
    parent = processes.ParentOf(*parent);
  }
  return std::nullopt;
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
