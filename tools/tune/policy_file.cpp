#include "tools/tune/policy_file.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "policy/options.h"
#include "policy/rule_keys.h"
#include "policy/text.h"

namespace slipstream::tune {
namespace {

constexpr size_t kColumns = 100;

// One comment, on as many lines as it takes. Nothing in it ends it.
std::string Comment(const std::string& text, const std::string& indent = "") {
  std::string lines;
  std::string left = policy::Escape(text);
  bool first = true;
  while (!left.empty()) {
    const size_t room = kColumns - 2 - indent.size();
    size_t end = left.size();
    if (left.size() > room) {
      const size_t space = left.rfind(' ', room);
      end = space == std::string::npos || space == 0 ? room : space;
    }
    lines += "# " + (first ? "" : indent) + left.substr(0, end) + "\n";
    left.erase(0, left.find_first_not_of(' ', end));
    first = false;
  }
  return lines;
}

// Whether the file of this origin is one that the new file takes the place of.
bool IsReplaced(const policy::Loaded& base, const std::string& key) {
  const auto origin = base.origins.find(key);
  return origin != base.origins.end() && origin->second.kind == policy::Origin::Kind::kFile &&
         origin->second.layer != policy::Layer::kSystem;
}

const Tried* KeptChange(const Search& search, const std::string& key) {
  for (const Tried& tried : search.tried()) {
    if (tried.key == key && tried.fate == Fate::kKept) return &tried;
  }
  return nullptr;
}

std::string WorthOf(const Search& search, const std::string& key) {
  const Tried* const kept = KeptChange(search, key);
  if (kept == nullptr) return "";
  return Comment(kept->confirmed ? Worth(*kept->confirmed) + " as without it" : "kept");
}

std::string OptionLine(const Search& search, const policy::Loaded& base, const policy::Option& option) {
  const std::string key = policy::KeyOf(option);
  if (const auto changed = search.best().find(key); changed != search.best().end()) {
    return WorthOf(search, key) + std::string(option.key) + " = " + changed->second + "\n";
  }
  if (!IsReplaced(base, key)) return "";
  return Comment("as in " + base.origins.at(key).Format()) + std::string(option.key) + " = " +
         policy::Literal(option, option.get(base.policy)) + "\n";
}

std::string Environment(const Search& search, const policy::Loaded& base) {
  constexpr std::string_view kTable = "environment.";
  std::string text;
  for (const auto& [name, value] : base.policy.environment) {
    const std::string key = std::string(kTable) + name;
    if (!search.best().contains(key) && IsReplaced(base, key)) {
      text += Comment("as in " + base.origins.at(key).Format()) + name + " = " + Quoted(value) + "\n";
    }
  }
  for (const auto& [key, value] : search.best()) {
    if (!key.starts_with(kTable)) continue;
    text += WorthOf(search, key) + Comment("It may change what the program computes.") + key.substr(kTable.size()) +
            " = " + value + "\n";
  }
  return text.empty() ? "" : "\n[environment]\n" + text;
}

std::string Rules(const policy::Loaded& base) {
  std::string text;
  for (size_t i = 0; i < base.policy.transfer.rules.size(); ++i) {
    const std::string name = policy::RuleName(i);
    if (!IsReplaced(base, name)) continue;
    text += "\n" + Comment("as in " + base.origins.at(name).Format()) + "[[" + std::string(policy::kRuleTable) + "]]\n";
    for (const policy::RuleKey& key : policy::RuleKeys()) {
      if (!base.origins.contains(name + "." + std::string(key.option.key))) continue;
      text += std::string(key.option.key) + " = " +
              policy::Literal(key.option, key.get(base.policy.transfer.rules[i])) + "\n";
    }
  }
  return text;
}

std::string NotKept(const Search& search, const std::vector<NotTried>& not_tried) {
  std::string text;
  for (const Tried& tried : search.tried()) {
    if (tried.fate == Fate::kKept) continue;
    text += Comment("  " + tried.key + " = " + tried.value + ": " + Reason(tried), "      ");
  }
  if (!text.empty()) text = "\n# Tried, and not kept:\n" + text;
  std::string others;
  for (const NotTried& one : not_tried) others += Comment("  " + one.key + ": " + one.why, "      ");
  if (!others.empty()) text += "\n# Not tried:\n" + others;
  return text;
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04X", byte);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Worth(const compare::Estimate& estimate) {
  char text[96];
  if (estimate.has_interval) {
    std::snprintf(text, sizeof(text), "%.3f times as fast (%.0f %%: %.3f to %.3f, %zu pairs)", estimate.ratio,
                  100 * estimate.confidence, estimate.low, estimate.high, estimate.pairs);
  } else {
    std::snprintf(text, sizeof(text), "%.3f times as fast (%zu %s)", estimate.ratio, estimate.pairs,
                  estimate.pairs == 1 ? "pair" : "pairs");
  }
  return text;
}

std::string Reason(const Tried& tried) {
  switch (tried.fate) {
    case Fate::kKept:
      return "kept";
    case Fate::kSlower:
      return "slower, " + Worth(tried.estimate);
    case Fate::kNoDifference:
      return "no difference that could be seen, " + Worth(tried.estimate);
    case Fate::kRefused:
      return tried.why;
    case Fate::kNotConfirmed:
      return "won once, and not again: " + Worth(tried.confirmed ? *tried.confirmed : tried.estimate);
  }
  return "";
}

std::string PolicyFileText(const Search& search, const policy::Loaded& base, const std::vector<NotTried>& not_tried,
                           const Account& account) {
  std::string text = Comment("Written by `slipstream tune`" + (account.when.empty() ? "" : ", " + account.when) +
                             ", for " + account.program + ".");
  if (!account.where.empty()) text += Comment("on " + account.where);
  if (!account.ruler.empty()) text += Comment("Compared was " + account.ruler + ".");
  if (search.best().empty()) {
    text += Comment("Nothing that was tried is faster: this is the policy that the search began with.");
  } else if (search.in_all()) {
    text += Comment("In all " + Worth(*search.in_all()) + " as the policy that the search began with (" + base.Files() +
                    "). Measured once more when the search was over.");
  }
  for (const std::string& note : account.notes) text += Comment(note);
  text += "version = " + std::to_string(policy::kVersion) + "\n";
  // Keys outside of any table come first.
  for (const policy::Option& option : policy::Options()) {
    if (option.table.empty() && option.key != "version") text += OptionLine(search, base, option);
  }
  for (const policy::Table& table : policy::Tables()) {
    if (table.name.empty()) continue;
    std::string lines;
    for (const policy::Option& option : policy::Options()) {
      if (option.table == table.name) lines += OptionLine(search, base, option);
    }
    if (!lines.empty()) text += "\n[" + std::string(table.name) + "]\n" + lines;
  }
  return text + Environment(search, base) + Rules(base) + NotKept(search, not_tried);
}

}  // namespace slipstream::tune
