#include "tools/cli/policy_command.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/options.h"
#include "policy/render.h"
#include "policy/rule_keys.h"
#include "policy/text.h"
#include "tools/cli/policy_output.h"
#include "tools/cli/screen.h"
#include "tools/cli/text_file.h"
#include "tools/text/json_text.h"

namespace slipstream::cli {
namespace {

using policy::Environment;
using policy::Loaded;
using policy::Option;
using policy::Origin;
using text::Json;

constexpr const char* kDim = "\033[2m";

// Calls use(key, its name in `origins`, the rule) for every key that a rule of the file sets.
template <typename Use>
void ForEachKeyOfRules(const Loaded& loaded, Use use) {
  for (std::size_t i = 0; i < loaded.policy.transfer.rules.size(); ++i) {
    for (const policy::RuleKey& key : policy::RuleKeys()) {
      const std::string name = policy::RuleName(i) + "." + std::string(key.option.key);
      if (loaded.origins.contains(name)) use(key, name, i);
    }
  }
}

struct Row {
  std::string key;
  std::string value;
  Origin origin;
};

std::vector<Row> RowsOf(const Loaded& loaded) {
  std::vector<Row> rows;
  const auto origin = [&loaded](const std::string& key) {
    const auto found = loaded.origins.find(key);
    return found == loaded.origins.end() ? Origin() : found->second;
  };
  const auto add_rules = [&] {
    ForEachKeyOfRules(loaded, [&](const policy::RuleKey& key, const std::string& name, std::size_t rule) {
      rows.push_back({name, policy::Literal(key.option, key.get(loaded.policy.transfer.rules[rule])), origin(name)});
    });
  };
  std::string_view table;
  for (const Option& option : policy::Options()) {
    // Behind the keys of their table.
    if (table == "transfer" && option.table != table) add_rules();
    table = option.table;
    const std::string key = policy::KeyOf(option);
    rows.push_back({key, policy::Literal(option, option.get(loaded.policy)), origin(key)});
  }
  for (const auto& [name, value] : loaded.policy.environment) {
    const std::string key = std::string(policy::kEnvironmentTable) + "." + name;
    rows.push_back({key, policy::Quote(value, std::string::npos), origin(key)});
  }
  return rows;
}

std::string TableOf(const Loaded& loaded, bool color) {
  const std::vector<Row> rows = RowsOf(loaded);
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  for (const Row& row : rows) {
    key_width = std::max(key_width, row.key.size());
    // One long path must not push every origin off the screen.
    if (row.value.size() <= 40) value_width = std::max(value_width, row.value.size());
  }
  const auto padded = [](std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
  };
  std::string out;
  for (const Row& row : rows) {
    const bool dim = color && row.origin.kind == Origin::Kind::kDefault;
    if (dim) out += kDim;
    out +=
        padded(row.key, key_width) + "  " + padded(row.value, value_width) + "  " + policy::Escape(row.origin.Format());
    if (dim) out += kPlain;
    out += '\n';
  }
  return out + "\nFiles, each over those above it, and variables over all:\n" + LayersText(loaded, "read");
}

std::string JsonOf(const Loaded& loaded) {
  Json values = Json::object();
  for (const Option& option : policy::Options()) {
    Json& table = option.table.empty() ? values : values[std::string(option.table)];
    table[std::string(option.key)] = ValueJson(option, option.get(loaded.policy));
  }
  Json rules = Json::array();
  for (std::size_t i = 0; i < loaded.policy.transfer.rules.size(); ++i) rules.push_back(Json::object());
  ForEachKeyOfRules(loaded, [&](const policy::RuleKey& key, const std::string&, std::size_t rule) {
    rules[rule][std::string(key.option.key)] = ValueJson(key.option, key.get(loaded.policy.transfer.rules[rule]));
  });
  values["transfer"]["rule"] = std::move(rules);
  values[std::string(policy::kEnvironmentTable)] = Json(loaded.policy.environment);

  Json origins = Json::object();
  for (const Row& row : RowsOf(loaded)) origins[row.key] = OriginJson(row.origin);
  Json out;
  out["path"] = text::OrNull(loaded.path);
  out["layers"] = LayersJson(loaded);
  out["policy"] = std::move(values);
  out["origins"] = std::move(origins);
  return text::JsonText(out);
}

int Init(const std::string& path, bool force) {
  if (const std::string error = WriteTextFile(path, policy::TemplateToml(), force); !error.empty()) {
    std::fprintf(stderr, "%s: %s\n", policy::Escape(path).c_str(), error.c_str());
    return 1;
  }
  return Print("Wrote " + policy::Escape(path) + ": every key, commented out at its default.\n");
}

}  // namespace

int PolicyCheck(const std::optional<std::string>& path) noexcept {
  return Guarded([&] {
    const Environment env = Environment::FromProcess();
    const policy::Search search = path ? policy::Search::kNamedOnly : policy::Search::kCommand;
    const Loaded loaded = policy::Load({.path = path, .env = env, .search = search});
    if (Complain(loaded) != 0) return 1;
    return Print(path ? policy::Escape(*path) + ": ok\n" : LayersText(loaded, "ok"));
  });
}

int PolicyShow(const std::optional<std::string>& path, bool json) noexcept {
  return Guarded([&] {
    const Environment env = Environment::FromProcess();
    const Loaded loaded = policy::Load({.path = path, .env = env, .search = policy::Search::kCommand});
    if (Complain(loaded) != 0) return 1;
    return Print(json ? JsonOf(loaded) : TableOf(loaded, OutputTakesColor(env)));
  });
}

int PolicyInit(const std::string& path, bool force) noexcept {
  return Guarded([&] { return Init(path, force); });
}

}  // namespace slipstream::cli
