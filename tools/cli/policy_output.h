// What the commands of `slipstream policy` share: how they end, and how they say where a value came from.
//
// Threading: call from one thread. Writes to standard output (results) and standard error (problems).
// Errors: functions that give an exit status say on standard error why it is not 0.

#pragma once

#include <cstdio>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "policy/load.h"
#include "policy/options.h"

namespace slipstream::cli {

// Ends a color of a terminal's.
inline constexpr char kPlain[] = "\033[0m";

// Runs a command that may throw (memory, at worst) and gives its exit status.
template <typename Command>
int Guarded(Command command) noexcept {
  try {
    return command();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slipstream policy: %s\n", error.what());
    return 1;
  }
}

// Prints every note and every problem; 0 where there is no problem.
int Complain(const policy::Loaded& loaded);

// Standard output may be a full disk or a closed pipe.
int Print(const std::string& text);

// {"kind": "file", "layer": ..., "file": ..., "line": ..., "column": ...}, {"kind": "environment", ...} or
// {"kind": "default"}.
nlohmann::ordered_json OriginJson(const policy::Origin& origin);

// The value as JSON has it: a choice by its name, a size in bytes.
nlohmann::ordered_json ValueJson(const policy::Option& option, const policy::Value& value);

// Every file and every place where one was looked for, a line each; `read` is what stands behind a file that is there.
std::string LayersText(const policy::Loaded& loaded, std::string_view read);
// [{"layer": ..., "file": ... or null, "found": ..., "note": ... or null}]
nlohmann::ordered_json LayersJson(const policy::Loaded& loaded);

}  // namespace slipstream::cli
