// The table of the keys of a [[transfer.rule]], beside that of the options.
//
// Purpose: the parser, `slipstream policy show|init` and docs/policy.md know the keys of a rule from here. A new one is
//   a field of TransferRule and a row in rule_keys.cpp.
// Threading: constant data and pure functions. Nothing is constructed at load time.
// No variable overrides a rule: there is no one rule that it could mean.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "policy/options.h"
#include "policy/policy.h"

namespace slipstream::policy {

inline constexpr std::string_view kRuleTable = "transfer.rule";

struct RuleKey {
  // What it accepts, and its texts. `set` and `get` are null, because a rule has no fixed place in a Policy.
  Option option;
  void (*set)(TransferRule& rule, const Value& value);
  // Where the rule says nothing: some value of the right kind, without a meaning.
  Value (*get)(const TransferRule& rule);
  // It says what becomes of a copy, not which ones are meant.
  bool action;
  // As TOML; together they are one rule that is accepted.
  std::string_view example;
};

std::span<const RuleKey> RuleKeys();

// By the part behind "transfer.rule."; null where there is none.
const RuleKey* FindRuleKey(std::string_view name);

// "transfer.rule[1]" for the first: how messages and origins name a rule.
std::string RuleName(std::size_t index);

}  // namespace slipstream::policy
