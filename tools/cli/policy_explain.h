// `slipstream policy explain`: what the policy makes of one copy, and which line of it decides.
//
// It asks the function that the engine asks (policy/transfer_plan.h), so it prints what happens, as far as the policy
// decides. What else is checked for each copy has the names that the summary uses.
// Threading: call from one thread. Writes to standard output (results) and standard error (problems).
// Errors: the return value is the exit status; nothing throws.

#pragma once

#include <optional>
#include <string>

namespace slipstream::cli {

struct ExplainOptions {
  // As in a policy: "80MB", "65536".
  std::string size;
  // "h2d" or "d2h".
  std::string direction;
  // The device's ordinal, 0 to 255.
  std::string device = "0";
  // Where in the program it is made: "train.py:42" or "train.py". Nothing: not known.
  std::optional<std::string> site{};
  // For the user's and the project's; nothing: as policy/layers.h says.
  std::optional<std::string> policy{};
  bool json = false;
};

// `json`: one object: "copy" as asked, "rule" (the first that matches, or null), "promote" and "skip_synchronize"
// ({"value", "by": the key that decided, or null, "origin"}), "off" (why slipstream is off, or null), "counted" (the
// name in a summary of a copy that the policy leaves alone, or null), "staging" ({"kind", "piece_bytes", "threads"} or
// null), "checked" (the names of what a running process is asked besides). 0: printed. 1: the policy has problems, or
// the output cannot be written. 2: an option's value is wrong.
int PolicyExplain(const ExplainOptions& options) noexcept;

}  // namespace slipstream::cli
