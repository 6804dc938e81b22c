// What the commands of `slipstream policy` share: how they end, and how they say where a value came from.
//
// Threading: call from one thread. Writes to standard output (results) and standard error (problems).
// Errors: functions that give an exit status say on standard error why it is not 0.

#pragma once

#include <cstdio>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "policy/load.h"

namespace slipstream::cli {

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

// Prints every problem; 0 where there is none.
int Complain(const policy::Loaded& loaded);

// Standard output may be a full disk or a closed pipe.
int Print(const std::string& text);

// {"kind": "file", "file": ..., "line": ..., "column": ...}, {"kind": "environment", ...} or {"kind": "default"}.
nlohmann::ordered_json OriginJson(const policy::Origin& origin);

}  // namespace slipstream::cli
