// From a TOML file and SLIPSTREAM_* variables to a validated Policy, or to everything that is wrong with them.
//
// Purpose: defaults, then the file, then the environment; each value remembers where it came from.
// Threading: no state; reads one file. Call it once per process and keep the result.
// Hazard: allocates and reads a file, so never on a hot path. Whoever gets a Loaded that is not ok() fails open:
//   `slipstream run` refuses to start and prints the problems; a bare preload says so once and passes through (S59).
// Errors: nothing throws. Out of memory is a Loaded that is not ok().
// Which file: Source::path, else SLIPSTREAM_POLICY where it is set and not empty, else none (defaults and variables).
// Who may write it (S59): a file that everybody may write is refused, and so is one whose folder everybody may write
//   without the sticky bit, because everybody could put another file in its place. That is asked of the folder in the
//   path and of the folder that the resolved path ends in, not of the folders above them.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/environment.h"
#include "policy/policy.h"
#include "policy/problem.h"

namespace slipstream::policy {

// Largest policy file that is read, in bytes.
inline constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;

struct Source {
  // The policy file. Nothing: SLIPSTREAM_POLICY in `env`.
  std::optional<std::string> path;
  // Must outlive the call to Load().
  const Environment& env;
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

  // "default", "policy.toml:7" or "SLIPSTREAM_LOG_LEVEL".
  std::string Format() const;

  bool operator==(const Origin&) const = default;
};

struct Loaded {
  // What to do. Where !ok(): the defaults with enabled = false, so that a caller that forgets to ask passes through.
  Policy policy;
  // The file that was named, by Source::path or SLIPSTREAM_POLICY; nothing where there was none.
  std::optional<std::string> path;
  // Everything that is wrong, in the order of the file, then the variables by name.
  std::vector<Problem> problems;
  // Origin of every key ("log.level", "environment.NAME"), and of each rule with the keys that it sets
  // ("transfer.rule[1]", "transfer.rule[1].promote"); complete only where ok().
  std::map<std::string, Origin> origins;
  // Memory ran out; `problems` may then be empty although the policy cannot be used.
  bool out_of_memory = false;

  bool ok() const noexcept { return problems.empty() && !out_of_memory; }
};

Loaded Load(const Source& source) noexcept;

// The same with the text already read; `name` stands where the file's name would. For tests and tools.
Loaded LoadText(const std::string& text, const std::string& name, const Environment& env) noexcept;

}  // namespace slipstream::policy
