// Loads TOML files and SLIPSTREAM_* variables into a validated Policy, or lists everything that is wrong with them.
//
// Purpose: defaults, then the files in the order of layers.h, then the environment; each value remembers where it came
//   from. A later file wins key by key. Of [[transfer.rule]], where the first that matches decides, the later file's
//   rules come first, and the others' behind them.
// Threading: no state; reads files. Call it once per process and keep the result.
// Hazard: allocates and reads files, so never on a hot path. Whoever gets a Loaded that is not ok() fails open:
//   `slipstream run` refuses to start and prints the problems; a bare preload says so once and passes through (S59).
// Errors: nothing throws. Out of memory is a Loaded that is not ok().
// Which files: layers.h. A file with a mistake is a problem in every layer: no setting may be lost silently.
// Who may write them (S59): source_file.h.
// Project files: one that was not named may not set [environment], log.file and run.summaries. It comes with whatever
//   was checked out into the working directory, and would decide which code the command loads and which files it
//   writes.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/environment.h"
#include "policy/layers.h"
#include "policy/policy.h"
#include "policy/problem.h"
#include "policy/run_policy.h"

namespace slipstream::policy {

// Largest policy file that is read, in bytes.
inline constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;

struct Source {
  // The policy file that takes the place of the user's and the project's. Nothing: SLIPSTREAM_POLICY in `env`.
  std::optional<std::string> path;
  // Must outlive the call to Load().
  const Environment& env;
  // Which layers there are beside it.
  Search search = Search::kNamedOnly;
};

// Where a value came from.
struct Origin {
  enum class Kind { kDefault, kFile, kEnvironment };

  Kind kind = Kind::kDefault;
  // The file as named, or the variable; empty for a default.
  std::string name{};
  // Position of the value in the file, from 1.
  int line = 0;
  int column = 0;
  // Of the file.
  Layer layer = Layer::kNamed;

  // "default", "policy.toml:7" for a file that was named, "user /data/me/.config/slipstream/policy.toml:7" for one of
  // another layer, "SLIPSTREAM_LOG_LEVEL".
  std::string Format() const;

  bool operator==(const Origin&) const = default;
};

struct Loaded {
  // The policy. If !ok(): the defaults with enabled = false, so that a caller that forgets to ask passes calls through.
  Policy policy;
  // The file that was named, by Source::path or SLIPSTREAM_POLICY; nothing where none was, or several were.
  std::optional<std::string> path;
  // Every file, and every place where one was looked for, in the order in which they are obeyed.
  std::vector<LayerFile> layers;
  // What was read of them, in the same order.
  std::vector<FileText> texts;
  // Everything that is wrong, in the order of the file, then the variables by name.
  std::vector<Problem> problems;
  // What was accepted and has no effect, in the same order: for people, and no reason to refuse anything.
  std::vector<Problem> notes;
  // Variables that begin like ours, but are neither ours nor a misspelled one: somebody else's, such as those of a
  // Kubernetes service of the same name. By name.
  std::vector<std::string> foreign;
  // Origin of every key ("log.level", "environment.NAME"), and of each rule with the keys that it sets
  // ("transfer.rule[1]", "transfer.rule[1].promote"); complete only where ok().
  std::map<std::string, Origin> origins;
  // Memory ran out; `problems` may then be empty although the policy cannot be used.
  bool out_of_memory = false;

  bool ok() const noexcept { return problems.empty() && !out_of_memory; }

  // What to tell people of `foreign`, a line each.
  std::vector<std::string> ForeignText() const;
  // The files that were read, for people: "defaults", or "system /etc/slipstream/policy.toml, policy.toml".
  std::string Files() const;
};

// Whether the variable is one of a key or has another meaning of its own for slipstream. Allocates.
bool IsOwnVariable(std::string_view name);

// A process of a run (Search::kProcess) has the policy that the run began with (run_policy.h).
Loaded Load(const Source& source) noexcept;

// Like Load() of exactly these files. Files that are not found are skipped.
Loaded LoadFiles(std::vector<LayerFile> files, const Environment& env) noexcept;

// The value of SLIPSTREAM_POLICY with which a process reads the same files, wherever it is and whatever its HOME:
// absolute paths of the files of `loaded`, without the system's, which the process finds itself. Empty if there are
// none: a process that finds the variable empty looks for no file of the user's.
std::string PolicyListFor(const Loaded& loaded);

// The value of SLIPSTREAM_RUN_POLICY, with which a process has this policy whatever becomes of the files. Empty if it
// is too long for a variable.
std::string RunPolicyFor(const Loaded& loaded);

// As Load() of one file, with the text already read; `name` stands where the file's name would. For tests and tools.
Loaded LoadText(const std::string& text, const std::string& name, const Environment& env) noexcept;

}  // namespace slipstream::policy
