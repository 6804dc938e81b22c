#include "tools/cli/policy_command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/options.h"
#include "policy/render.h"
#include "policy/rule_keys.h"
#include "policy/text.h"
#include "tools/cli/policy_output.h"

namespace slipstream::cli {
namespace {

using policy::Environment;
using policy::Loaded;
using policy::Option;
using policy::Origin;

constexpr const char* kDim = "\033[2m";
constexpr const char* kPlain = "\033[0m";

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

std::string TableOf(const Loaded& loaded, bool colour) {
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
    const bool dim = colour && row.origin.kind == Origin::Kind::kDefault;
    if (dim) out += kDim;
    out +=
        padded(row.key, key_width) + "  " + padded(row.value, value_width) + "  " + policy::Escape(row.origin.Format());
    if (dim) out += kPlain;
    out += '\n';
  }
  return out;
}

nlohmann::ordered_json JsonValue(const Option& option, const policy::Value& value) {
  // A choice is a number only inside; people and scripts know its name.
  if (option.type == policy::OptionType::kChoice) {
    return std::string(option.choices[static_cast<std::size_t>(value.number)]);
  }
  switch (value.kind) {
    case policy::Value::Kind::kFlag:
      return value.flag;
    case policy::Value::Kind::kNumber:
      return value.number;
    case policy::Value::Kind::kText:
      return value.text;
  }
  return nullptr;
}

std::string JsonOf(const Loaded& loaded) {
  using Json = nlohmann::ordered_json;
  Json values = Json::object();
  for (const Option& option : policy::Options()) {
    Json& table = option.table.empty() ? values : values[std::string(option.table)];
    table[std::string(option.key)] = JsonValue(option, option.get(loaded.policy));
  }
  Json rules = Json::array();
  for (std::size_t i = 0; i < loaded.policy.transfer.rules.size(); ++i) rules.push_back(Json::object());
  ForEachKeyOfRules(loaded, [&](const policy::RuleKey& key, const std::string&, std::size_t rule) {
    rules[rule][std::string(key.option.key)] = JsonValue(key.option, key.get(loaded.policy.transfer.rules[rule]));
  });
  values["transfer"]["rule"] = std::move(rules);
  values[std::string(policy::kEnvironmentTable)] = Json(loaded.policy.environment);

  Json origins = Json::object();
  for (const Row& row : RowsOf(loaded)) origins[row.key] = OriginJson(row.origin);
  Json out;
  out["path"] = loaded.path ? Json(*loaded.path) : Json(nullptr);
  out["policy"] = std::move(values);
  out["origins"] = std::move(origins);
  // A path or a variable's value may be any bytes.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool OutputTakesColour(const Environment& env) {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  const auto no_colour = env.Get("NO_COLOR");
  return (!no_colour || no_colour->empty()) && env.Get("TERM") != "dumb";
}

// Writes a new file; false, with errno, where it exists or cannot be written whole (then nothing is left of it).
bool WriteNewFile(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::write(fd, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  int error = rest.empty() ? 0 : errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0) return true;
  ::unlink(path.c_str());
  errno = error;
  return false;
}

int Init(const std::string& path, bool force) {
  const std::string text = policy::TemplateToml();
  const std::string name = policy::Escape(path);
  // Replacing goes through a file beside it, so that at every moment there is a whole one.
  const std::string fresh = force ? path + ".new." + std::to_string(::getpid()) : path;
  if (!WriteNewFile(fresh, text)) {
    if (errno == EEXIST && !force) {
      std::fprintf(stderr, "%s: exists; --force replaces it\n", name.c_str());
    } else {
      std::fprintf(stderr, "%s: cannot be written: %s\n", name.c_str(), std::strerror(errno));
    }
    return 1;
  }
  if (force && ::rename(fresh.c_str(), path.c_str()) != 0) {
    std::fprintf(stderr, "%s: cannot be replaced: %s\n", name.c_str(), std::strerror(errno));
    ::unlink(fresh.c_str());
    return 1;
  }
  return Print("Wrote " + name + ": every key, commented out at its default.\n");
}

}  // namespace

int PolicyCheck(const std::string& path) noexcept {
  return Guarded([&] {
    const Environment env = Environment::FromProcess();
    const Loaded loaded = policy::Load({.path = path, .env = env});
    if (Complain(loaded) != 0) return 1;
    return Print(policy::Escape(path) + ": ok\n");
  });
}

int PolicyShow(const std::optional<std::string>& path, bool json) noexcept {
  return Guarded([&] {
    const Environment env = Environment::FromProcess();
    const Loaded loaded = policy::Load({.path = path, .env = env});
    if (Complain(loaded) != 0) return 1;
    return Print(json ? JsonOf(loaded) : TableOf(loaded, OutputTakesColour(env)));
  });
}

int PolicyInit(const std::string& path, bool force) noexcept {
  return Guarded([&] { return Init(path, force); });
}

}  // namespace slipstream::cli
