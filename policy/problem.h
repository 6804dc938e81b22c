// One thing that is wrong with a policy, with everything a person needs to put it right.
//
// Threading: plain data.

#pragma once

#include <string>

namespace slipstream::policy {

struct Problem {
  // The policy file as the user named it. Empty where the problem is in a variable.
  std::string file{};
  // Where in the file, from 1, columns in characters. 0: the file as a whole.
  int line = 0;
  int column = 0;
  // The environment variable. Empty where the problem is in the file.
  std::string variable{};
  // The key as written, with its table ("log.level"); empty where no key is to blame.
  std::string key{};
  // What is wrong, where it takes more than `found` and `expected` to say it.
  std::string what{};
  // What stands there, as it would be written in TOML.
  std::string found{};
  // What would be accepted.
  std::string expected{};
  // The nearest valid key, variable or value; empty where none is near.
  std::string suggestion{};

  // One line, without a newline, control characters escaped:
  //   policy.toml:7:3: unknown key "alocator.mode"; did you mean "allocator.mode"?
  //   policy.toml:9:9: "log.level": found "loud", expected "off", "error", "warn", "info" or "debug"
  //   environment variable SLIPSTREAM_LOG_LEVEL: found "loud", expected ...
  std::string Format() const;

  bool operator==(const Problem&) const = default;
};

}  // namespace slipstream::policy
