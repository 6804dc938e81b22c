// `slipstream compare`: runs a command bare and under slipstream, or under two policies, in turn. It says how fast one
// is beside the other, how sure that is, and whether both print the same results. tools/compare has the arithmetic.
//
// Threading: call from one thread. Writes to standard output, and to standard error (problems and progress).
// Hazard: a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after the command that runs has been
//   ended and what there is has been printed; meanwhile their handlers are its own.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/yardstick.h"

namespace slipstream::cli {

struct CompareOptions {
  std::vector<std::string> policies;  // none: bare and the policy in force; one: bare and this; two: both of them
  std::optional<size_t> pairs{};      // nothing: kPairs, or as many as the budget allows
  size_t warm_ups = 1;
  std::optional<uint32_t> seed{};  // of the order of the sides; nothing: chance
  YardstickOptions yardstick{};
  double budget = 0;                       // seconds; 0: none
  std::optional<double> fail_if_slower{};  // a share: kSlower if the second side is shown to be slower by more
  bool two_commands = false;               // `command` holds both, "--" between them, which run under slipstream
  std::string prepare;                     // of a shell, before each run and outside of its time; empty: nothing
  bool json = false;
  bool markdown = false;
  bool verbose = false;
  std::vector<std::string> command;  // never empty
};

// Whose errors are printed.
inline constexpr char kCompareCommand[] = "compare";
inline constexpr size_t kPairs = 8;

int Compare(const CompareOptions& options, const std::string& version);

}  // namespace slipstream::cli
