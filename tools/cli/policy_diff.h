// `slipstream policy diff`: what differs between two policies, and where either has it from.
//
// Threading: call from one thread. Writes to standard output (results) and standard error (problems).
// Errors: the return value is the exit status; nothing throws.

#pragma once

#include <string>

namespace slipstream::cli {

struct DiffOptions {
  // Each a policy file, or a word: "default", "system", "user" and "project" (the defaults and what that layer sets),
  // "effective" (what `slipstream run` from here would obey, variables too). A file of such a name is "./default".
  std::string a;
  std::string b = "effective";
  bool json = false;
};

// Compares key by key, variables of [environment] too, and the rules as a list: which ones were taken out of the first
// to make the second, and which put in. `json`: one object {"a": {"name", "files"}, "b": {...}, "same", "keys":
// [{"key", "a": {"value", "origin"}, "b": {...}}], "rules": [{"change": "same"|"removed"|"added", "a": number or null,
// "b": ..., "rule": {...}, "origin"}]}; "rules" is empty where they are the same. 0: the same. 1: they differ. 2: one
// of them cannot be had, or the output cannot be written.
int PolicyDiff(const DiffOptions& options) noexcept;

}  // namespace slipstream::cli
