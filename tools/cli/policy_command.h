// `slipstream policy check|show|init`, as plain functions; main.cpp has the command line.
//
// Threading: call from one thread. Writes to standard output (results) and standard error (problems).
// Errors: the return value is the exit status; nothing throws.

#pragma once

#include <optional>
#include <string>

namespace slipstream::cli {

// Checks one policy file, or without a path every file that `slipstream run` would read from here, together with the
// SLIPSTREAM_* variables of this process, which would override them. 0: valid, and says so. 1: every problem on
// standard error, one a line.
int PolicyCheck(const std::optional<std::string>& path) noexcept;

// Prints the value of every key that holds for `slipstream run` from here (with `--policy path`, where there is one)
// and where it came from, and every file that was looked for. On a terminal, defaults are dimmed. `json`: one object
// {"path": ..., "layers": [...], "policy": {...}, "origins": {key: {...}}}.
// Of a [[transfer.rule]], the keys that it sets, as "transfer.rule[1].promote".
// 0: printed. 1: problems, on standard error.
int PolicyShow(const std::optional<std::string>& path, bool json) noexcept;

// Writes a policy with every key commented out at its default, mode 0644 before the umask. An existing file is replaced
// only with `force`, and then atomically. 0: written. 1: not, and says why on standard error.
int PolicyInit(const std::string& path, bool force) noexcept;

}  // namespace slipstream::cli
