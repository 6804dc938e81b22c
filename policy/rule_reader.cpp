#include "policy/rule_reader.h"

#include <algorithm>
#include <utility>

#include "policy/nearest.h"
#include "policy/rule_keys.h"
#include "policy/site.h"
#include "policy/text.h"
#include "policy/transfer_plan.h"
#include "policy/value.h"

namespace slipstream::policy {
namespace {

constexpr std::size_t kParts = 2;  // "transfer", "rule"

bool IsOfRules(const Entry& entry) {
  return entry.path.size() >= kParts && entry.path[0] == "transfer" && entry.path[1] == "rule";
}

bool Allows(RuleDirection rule, RuleDirection direction) { return rule == RuleDirection::kBoth || rule == direction; }

// Whether the copies that the later rule means by its site are all meant by the earlier one's.
bool CoversSite(const TransferRule& earlier, const TransferRule& later) {
  if (earlier.site.empty()) return true;
  const auto wanted = ParseSite(earlier.site);
  const auto at = ParseSite(later.site);
  return wanted && at && Matches(*wanted, *at);
}

}  // namespace

Problem RuleReader::MakeProblem(const Place& place, std::string key) const {
  return {.file = file_, .line = place.line, .column = place.column, .key = std::move(key)};
}

void RuleReader::Refuse(const Entry& entry, std::string what, std::string expected) {
  Problem problem = MakeProblem({entry.line, entry.column}, entry.Key());
  problem.found = entry.Found();
  problem.what = std::move(what);
  problem.expected = std::move(expected);
  problems_.push_back(std::move(problem));
}

bool RuleReader::Read(const Entry& entry) {
  if (!IsOfRules(entry)) return false;
  // In an array of tables further up ([[transfer]]), which is a problem of its own.
  if (entry.element != 0 && entry.array_parts != kParts) return true;
  if (entry.element == 0) {
    // What is inside of something else than an array is that one's problem.
    if (entry.path.size() > kParts || entry.kind == Entry::Kind::kTableArray) return true;
    Refuse(entry, "", "an array of tables: [[" + std::string(kRuleTable) + "]]");
    damaged_ = true;
    return true;
  }
  if (entry.element > kMostRules) {
    if (!std::exchange(too_many_, true)) {
      Problem problem = MakeProblem({entry.line, entry.column}, entry.Key());
      problem.what = "more than " + std::to_string(kMostRules) + " rules";
      problems_.push_back(std::move(problem));
    }
    return true;
  }
  std::vector<TransferRule>& rules = loaded_.policy.transfer.rules;
  while (rules.size() < entry.element) {
    rules.emplace_back();
    seen_.emplace_back();
  }
  if (entry.path.size() == kParts) {
    seen_[entry.element - 1].rule = {entry.line, entry.column};
    loaded_.origins[RuleName(entry.element - 1)] = {
        .kind = Origin::Kind::kFile, .name = file_, .line = entry.line, .column = entry.column};
  } else {
    ReadKey(entry);
  }
  return true;
}

void RuleReader::ReadKey(const Entry& entry) {
  const std::size_t index = entry.element - 1;
  const std::string& name = entry.path[kParts];
  const RuleKey* const key = FindRuleKey(name);
  if (entry.path.size() > kParts + 1 && key != nullptr) return;  // in a table that is refused itself
  if (key == nullptr || entry.path.size() > kParts + 1) {
    if (entry.kind == Entry::Kind::kTable) return;  // what is inside is reported
    damaged_ = true;
    Problem problem = MakeProblem({entry.key_line, entry.key_column}, entry.Key());
    problem.what = "unknown key \"" + Escape(problem.key) + "\"";
    std::vector<std::string> keys;
    for (const RuleKey& known : RuleKeys()) keys.push_back(KeyOf(known.option));
    problem.suggestion = Nearest(problem.key, keys);
    problems_.push_back(std::move(problem));
    return;
  }
  Problem problem = MakeProblem({entry.line, entry.column}, entry.Key());
  const auto value = Accept(key->option, entry, problem);
  if (!value) {
    damaged_ = true;
    problems_.push_back(std::move(problem));
    return;
  }
  key->set(loaded_.policy.transfer.rules[index], *value);
  loaded_.origins[RuleName(index) + "." + name] = {
      .kind = Origin::Kind::kFile, .name = file_, .line = entry.line, .column = entry.column};
  Seen& seen = seen_[index];
  seen.action |= key->action;
  if (name == "site" && !ParseSite(value->text)) {
    damaged_ = true;
    Refuse(entry, "no place in a program", "a file, or a file and a line: \"train.py:42\"");
  }
  if (name == "max_size") seen.max_size = entry;
  if (name == "promote") seen.promote = entry;
  if (name == "skip_synchronize") seen.skip_synchronize = entry;
}

void RuleReader::Finish(bool whole) {
  if (!whole || damaged_) return;
  const std::size_t before = problems_.size();
  for (std::size_t i = 0; i < seen_.size(); ++i) CheckKeys(loaded_.policy.transfer.rules[i], seen_[i]);
  if (problems_.size() == before) CheckReachable();
}

void RuleReader::CheckKeys(const TransferRule& rule, const Seen& seen) {
  if (!seen.action) {
    Problem problem = MakeProblem(seen.rule, std::string(kRuleTable));
    problem.what = "a rule without an action";
    problem.expected = "promote or skip_synchronize";
    problems_.push_back(std::move(problem));
  }
  if (rule.min_size > rule.max_size) {
    Refuse(seen.max_size, "no copy has such a size",
           "a size from " + FormatSize(static_cast<std::int64_t>(rule.min_size)) + ", the rule's min_size");
    return;
  }
  // What nobody would obey.
  const bool to_host = rule.direction == RuleDirection::kDeviceToHost;
  if (rule.promote == RuleSwitch::kTrue && to_host && rule.max_size <= kSmallCopyBytes) {
    Refuse(seen.promote, "copies to the host of up to " + FormatSize(kSmallCopyBytes) + " are never promoted", "false");
  }
  if (rule.skip_synchronize != RuleSwitch::kTrue) return;
  if (to_host) {
    Refuse(seen.skip_synchronize, "the synchronization behind a copy to the host is never skipped", "false");
  } else if (rule.promote == RuleSwitch::kFalse) {
    Refuse(seen.skip_synchronize, "the synchronization behind a copy that is not promoted is never skipped", "false");
  }
}

void RuleReader::CheckReachable() {
  for (std::size_t i = 1; i < seen_.size(); ++i) {
    if (Reachable(i)) continue;
    Problem problem = MakeProblem(seen_[i].rule, std::string(kRuleTable));
    problem.what = "a rule that no copy can reach: those before it match all that it does";
    problems_.push_back(std::move(problem));
  }
}

// Whether there is a copy that the rule matches and none before it does.
bool RuleReader::Reachable(std::size_t index) const {
  const std::vector<TransferRule>& rules = loaded_.policy.transfer.rules;
  const TransferRule& rule = rules[index];
  // Each device that a rule names, and one that none does.
  std::vector<int> devices{rule.device};
  if (rule.device == TransferRule::kAnyDevice) {
    for (std::size_t i = 0; i < index; ++i) devices.push_back(rules[i].device);
  }
  for (const RuleDirection direction : {RuleDirection::kHostToDevice, RuleDirection::kDeviceToHost}) {
    if (!Allows(rule.direction, direction)) continue;
    for (const int device : devices) {
      // All sizes below `size` that the rule matches are taken. A copy has at least one byte.
      std::uint64_t size = std::max<std::uint64_t>(rule.min_size, 1);
      for (bool taken = true; taken;) {
        taken = false;
        for (std::size_t i = 0; i < index && !taken; ++i) {
          const TransferRule& other = rules[i];
          if (!Allows(other.direction, direction) || size < other.min_size || size > other.max_size) continue;
          if (other.device != TransferRule::kAnyDevice && other.device != device) continue;
          if (!CoversSite(other, rule)) continue;
          if (other.max_size >= rule.max_size) {
            size = 0;  // up to the end
            break;
          }
          size = other.max_size + 1;
          taken = true;
        }
      }
      if (size != 0) return true;
    }
  }
  return false;
}

}  // namespace slipstream::policy
