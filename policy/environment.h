// Environment variables: the only place in the project that reads them.
//
// Purpose: a snapshot of the process's variables (or a map, in tests), and a few functions for use before there can be
//   one. Values are read from `environ` itself and not by getenv: some programs (bash) export their own getenv.
// Threading: an Environment is immutable once made. The functions that read `environ` race with a setenv on another
//   thread exactly as getenv does; call them where getenv would be called.
// Hazard: the pointers and views handed out by EnvironmentValue() live until the program changes that variable; those
//   handed out by an Environment live as long as it does.
// Errors: nothing throws.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipstream::policy {

// Every variable of ours begins with this, but not every variable that begins with it is ours (IsOwnVariable in
// load.h).
inline constexpr std::string_view kVariablePrefix = "SLIPSTREAM_";

// The variables that are not overrides of a policy key.
inline constexpr const char* kPolicyVariable = "SLIPSTREAM_POLICY";                     // policy files (layers.h)
inline constexpr const char* kSystemDirectoryVariable = "SLIPSTREAM_SYSTEM_DIRECTORY";  // for /etc/slipstream
inline constexpr const char* kDisableVariable = "SLIPSTREAM_DISABLE";                   // "1": pass everything through
inline constexpr const char* kRunDirectoryVariable = "SLIPSTREAM_RUN_DIRECTORY";        // set by `slipstream run`
inline constexpr const char* kRunVariable = "SLIPSTREAM_RUN_ROOT";                      // the same (run_variable.h)
inline constexpr const char* kRunPolicyVariable = "SLIPSTREAM_RUN_POLICY";              // the same (run_policy.h)
inline constexpr const char* kChildrenVariable = "SLIPSTREAM_CHILDREN";                 // the same (children.h)

// A copy of the variables, sorted by name. A name that stands twice in `environ` counts once, the first, as in getenv.
class Environment {
 public:
  // The variables of this process, now. Allocates; out of memory gives an incomplete one.
  static Environment FromProcess() noexcept;

  // The variables that the process began with (RememberVariables), and the directory that it began in.
  static Environment AtStart() noexcept;

  // For tests: exactly these variables.
  explicit Environment(const std::map<std::string, std::string>& variables);

  // The value, or nothing where the variable is not set. An empty value is a value.
  std::optional<std::string_view> Get(std::string_view name) const noexcept;

  // All of them, (name, value), sorted by name.
  const std::vector<std::pair<std::string, std::string>>& variables() const noexcept { return variables_; }

  // Absolute: what a relative path in a variable stands in. Empty: the working directory.
  const std::string& directory() const noexcept { return directory_; }

  // false: memory ran out while reading; the contents are incomplete, and Load() refuses them.
  bool complete() const noexcept { return complete_; }

 private:
  Environment() = default;
  static Environment From(char* const* variables) noexcept;

  std::vector<std::pair<std::string, std::string>> variables_;
  std::string directory_;
  bool complete_ = true;
};

// `environ` now, as it would be passed on to a program; may be null. No allocation, no lock.
char** ProcessVariables() noexcept;

// The value in such a list, the first where a name stands twice, or null. The list may be null. No allocation, no lock.
const char* ValueIn(char* const* variables, const char* name) noexcept;

// The value in `environ` now, or null where it is not set. No allocation, no lock. `name` has no '='.
const char* EnvironmentValue(const char* name) noexcept;

// Copies `environ` and the working directory as they are now, once: settings are those that a process begins with, and
// what the program does to its variables later, or to the block that they lay in, changes nothing (S76). From a
// constructor of the loader's. No allocation but of pages, no lock; without memory nothing is remembered, and the
// variables are read where they stand.
void RememberVariables() noexcept;

// Whether SLIPSTREAM_DISABLE was set to anything but "" and "0" when the process began (RememberVariables), or is now
// where nothing was remembered. No allocation, no lock; may be called at any time, from
// a constructor of the loader or in a forked child too.
bool DisabledByEnvironment() noexcept;

// Whether the C library was told to fill memory that is freed and allocated (MALLOC_PERTURB_, and glibc.malloc.perturb
// of GLIBC_TUNABLES), at the same moment. No allocation, no lock.
bool FreedMemoryIsFilled() noexcept;

// The same as DisabledByEnvironment for variables that are to be passed on.
bool DisabledIn(char* const* variables) noexcept;

}  // namespace slipstream::policy
