// The table of options, the only list of a policy's keys.
//
// Purpose: the parser, the overrides, `slipstream policy show|init` and docs/policy.md all read this table.
//   A new key is a field in policy.h and a row in options.cpp. Defaults stand in policy.h only; get() of a
//   fresh Policy finds them.
// Threading: constant data and pure functions. Nothing is constructed at load time.
// Not in the table: [environment], whose keys are the user's own, and keys and values of the previous version.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "policy/document.h"
#include "policy/policy.h"
#include "policy/problem.h"
#include "policy/value.h"

namespace slipstream::policy {

enum class OptionType : std::uint8_t { kBool, kInteger, kSize, kChoice, kString, kList };

struct Option {
  // Empty for a key outside of any table.
  std::string_view table;
  std::string_view key;
  OptionType type;
  // One line, a sentence.
  std::string_view doc;
  void (*set)(Policy& policy, const Value& value);
  Value (*get)(const Policy& policy);
  // Of a number or a size.
  std::int64_t min = 0;
  std::int64_t max = 0;
  // Of a choice: names, by the number of the enumerator.
  std::span<const std::string_view> choices = {};
  // Of a text that is not any text: what it is, and whether this is one.
  std::string_view expected = {};
  bool (*is_valid)(std::string_view text) = nullptr;
  // Whether an environment variable overrides it.
  bool overridable = true;
};

struct Table {
  std::string_view name;
  // One line, a sentence.
  std::string_view doc;
};

std::span<const Option> Options();

// In the order in which they are written, without [environment].
std::span<const Table> Tables();

inline constexpr std::string_view kEnvironmentTable = "environment";

// "log.level"
std::string KeyOf(const Option& option);

// "SLIPSTREAM_LOG_LEVEL"
std::string VariableOf(const Option& option);

// Null where there is none.
const Option* FindOption(std::string_view key);

// A key of the previous version whose option is gone. It is accepted with any value for one version, with a note that
// it has no effect.
struct RetiredKey {
  std::string_view key;
  // What is said behind the key.
  std::string_view note;
};

// By its key, or by the variable that overrode it. Null where there is none.
const RetiredKey* FindRetired(std::string_view key_or_variable);

// "\"off\", \"error\" or \"warn\"", "true or false", "an integer from 1 to 4096"
std::string Expected(const Option& option);

// The value as TOML: "\"16MiB\"", "true", "256".
std::string Literal(const Option& option, const Value& value);

// The value that an entry gives the option. Nothing where it is refused; then `problem` has found, expected, what and
// suggestion filled in. The position is the caller's. A value of the previous version is accepted as the one that
// stands for it now; then `problem.what` is a note that says so.
std::optional<Value> Accept(const Option& option, const Entry& entry, Problem& problem);

// The same for the text of an environment variable: text needs no quotes there, and colons separate a list's elements.
// "yes", "on" and "1" are true, and "on" where a choice has that; "no", "off" and "0" are false or "off"; in any case.
std::optional<Value> AcceptText(const Option& option, std::string_view text, Problem& problem);

}  // namespace slipstream::policy
