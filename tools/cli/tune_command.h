// `slipstream tune`: looks for a policy under which a command is faster, and writes it to a file with what each change
// in it is worth. tools/tune has the search, tools/compare the arithmetic.
//
// Threading, signals: as compare_command.h. What was measured is kept in a journal beside the file until the search is
// over, so that --resume goes on where one ended.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/yardstick.h"

namespace slipstream::cli {

struct TuneOptions {
  std::optional<std::string> policy;  // file, that the search begins with; nothing: the policy in force
  std::string out = "slipstream-tuned.toml";
  bool force = false;                    // replaces `out`, and a journal
  bool resume = false;                   // goes on from the journal
  std::vector<std::string> environment;  // NAME=value that may be set, and may change what is computed
  std::vector<std::string> only;         // keys of the policy, or sections, to try; empty: all
  size_t pairs = 6;                      // of a contest
  YardstickOptions yardstick{};
  double budget = 1800;  // seconds
  bool json = false;
  std::vector<std::string> command;  // never empty
};

int Tune(const TuneOptions& options, const std::string& version);

}  // namespace slipstream::cli
