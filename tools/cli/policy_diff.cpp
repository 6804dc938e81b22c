#include "tools/cli/policy_diff.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/environment.h"
#include "policy/layers.h"
#include "policy/load.h"
#include "policy/options.h"
#include "policy/rule_keys.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/policy_output.h"
#include "tools/cli/screen.h"
#include "tools/text/json_text.h"

namespace slipstream::cli {
namespace {

using policy::Environment;
using policy::Layer;
using policy::LayerFile;
using policy::Loaded;
using policy::Option;
using policy::Origin;
using policy::TransferRule;
using text::Json;

constexpr int kSame = 0;
constexpr int kDifferent = 1;
constexpr int kTrouble = 2;

constexpr const char* kRemoved = "\033[31m";
constexpr const char* kAdded = "\033[32m";

// Longer values would push the others off the screen.
constexpr std::size_t kWidestValue = 60;

struct Side {
  std::string name;
  Loaded loaded;
};

// The files of one layer, and nothing else but the defaults. Nothing: said why on standard error.
std::optional<Loaded> LoadLayer(Layer layer, const Environment& env) {
  std::vector<policy::Problem> problems;
  // Where it would be if nothing took its place.
  std::map<std::string, std::string> variables(env.variables().begin(), env.variables().end());
  variables.erase(policy::kPolicyVariable);
  const Environment unnamed(variables);
  const std::vector<LayerFile> files = FindLayers({.search = policy::Search::kCommand}, unnamed, problems);
  for (const policy::Problem& problem : problems) {
    std::fprintf(stderr, "slipstream policy diff: %s\n", problem.Format().c_str());
  }
  if (!problems.empty()) return std::nullopt;
  std::vector<LayerFile> own;
  std::copy_if(files.begin(), files.end(), std::back_inserter(own),
               [layer](const LayerFile& f) { return f.layer == layer; });
  const bool found = std::any_of(own.begin(), own.end(), [](const LayerFile& file) { return file.found; });
  if (!found) {
    std::fprintf(stderr, "slipstream policy diff: there is no policy of the layer \"%s\"; looked for:\n",
                 NameOf(layer));
    for (const LayerFile& file : own) {
      std::fprintf(stderr, "  %s%s%s\n", policy::Escape(file.path).c_str(), file.note.empty() ? "" : ", ",
                   policy::Escape(file.note).c_str());
    }
    return std::nullopt;
  }
  return policy::LoadFiles(std::move(own), Environment(std::map<std::string, std::string>()));
}

std::optional<Loaded> LoadSide(const std::string& name, const Environment& env) {
  const Environment none{std::map<std::string, std::string>()};
  if (name == "default") return policy::LoadFiles({}, none);
  if (name == "effective") {
    return policy::Load({.path = std::nullopt, .env = env, .search = policy::Search::kCommand});
  }
  for (const Layer layer : {Layer::kSystem, Layer::kUser, Layer::kProject}) {
    if (name == NameOf(layer)) return LoadLayer(layer, env);
  }
  return policy::Load({.path = name, .env = none, .search = policy::Search::kNamedOnly});
}

// One key in both policies; no value: it is not there.
struct Value {
  std::string literal;
  Json json;
  Origin origin;
};
struct KeyPair {
  std::string key;
  std::optional<Value> a{};
  std::optional<Value> b{};
};

std::optional<Value> OptionIn(const Loaded& loaded, const Option& option) {
  const policy::Value value = option.get(loaded.policy);
  return Value{Literal(option, value), ValueJson(option, value), loaded.origins.at(KeyOf(option))};
}

std::optional<Value> VariableIn(const Loaded& loaded, const std::string& name) {
  const auto found = loaded.policy.environment.find(name);
  if (found == loaded.policy.environment.end()) return std::nullopt;
  return Value{policy::Quote(found->second, std::string::npos), found->second,
               loaded.origins.at(std::string(policy::kEnvironmentTable) + "." + name)};
}

std::vector<KeyPair> DifferentKeys(const Loaded& a, const Loaded& b) {
  std::vector<KeyPair> keys;
  for (const Option& option : policy::Options()) {
    if (option.get(a.policy) == option.get(b.policy)) continue;
    keys.push_back({KeyOf(option), OptionIn(a, option), OptionIn(b, option)});
  }
  std::map<std::string, bool> names;
  for (const Loaded* loaded : {&a, &b}) {
    for (const auto& variable : loaded->policy.environment) names[variable.first] = true;
  }
  for (const auto& [name, unused] : names) {
    KeyPair pair = {std::string(policy::kEnvironmentTable) + "." + name, VariableIn(a, name), VariableIn(b, name)};
    if (!pair.a || !pair.b || pair.a->json != pair.b->json) keys.push_back(std::move(pair));
  }
  return keys;
}

// One step on the way from the one list of rules to the other: a rule of the first that is taken out, one of the second
// that is put in, or one that both have. Numbers are from 0.
struct RuleStep {
  std::optional<std::size_t> a{};
  std::optional<std::size_t> b{};
};

// By the longest list of rules that both have in the same order; at most 64 rules each.
std::vector<RuleStep> StepsBetween(const std::vector<TransferRule>& a, const std::vector<TransferRule>& b) {
  // The length of that list for the rules from i and from j on.
  std::vector<std::vector<std::size_t>> common(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<RuleStep> steps;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      steps.push_back({i++, j++});
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      steps.push_back({i++, std::nullopt});
    } else {
      steps.push_back({std::nullopt, j++});
    }
  }
  return steps;
}

// "min_size = \"1MiB\", promote = true": the keys that the rule sets.
std::string RuleText(const Loaded& loaded, std::size_t rule) {
  std::string text;
  for (const policy::RuleKey& key : policy::RuleKeys()) {
    if (!loaded.origins.contains(policy::RuleName(rule) + "." + std::string(key.option.key))) continue;
    text += (text.empty() ? "" : ", ") + std::string(key.option.key) + " = " +
            Literal(key.option, key.get(loaded.policy.transfer.rules[rule]));
  }
  return text;
}

Json RuleJson(const Loaded& loaded, std::size_t rule) {
  Json json = Json::object();
  for (const policy::RuleKey& key : policy::RuleKeys()) {
    if (!loaded.origins.contains(policy::RuleName(rule) + "." + std::string(key.option.key))) continue;
    json[std::string(key.option.key)] = ValueJson(key.option, key.get(loaded.policy.transfer.rules[rule]));
  }
  return json;
}

struct Difference {
  std::vector<KeyPair> keys;
  std::vector<RuleStep> rules;  // empty: the same

  bool None() const { return keys.empty() && rules.empty(); }
};

// What the side is called, and below it the files that it was read from, if that is not the same.
std::string HeadOf(const char* letter, const Side& side) {
  std::string out = letter + ("  " + policy::Escape(side.name)) + "\n";
  for (const LayerFile& file : side.loaded.layers) {
    if (file.found && file.path != side.name)
      out += "   " + std::string(NameOf(file.layer)) + " " + policy::Escape(file.path) + "\n";
  }
  return out;
}

std::string Padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// A column as wide as its widest value, but for those that would push the rest off the screen.
std::size_t Widest(const std::vector<std::string>& values) {
  std::size_t width = 0;
  for (const std::string& value : values) {
    if (value.size() <= kWidestValue) width = std::max(width, value.size());
  }
  return width;
}

std::string TextOf(const Difference& difference, const Side& a, const Side& b, bool color) {
  const auto colored = [color](const char* how, const std::string& text) { return color ? how + text + kPlain : text; };
  std::string out = HeadOf("a", a) + HeadOf("b", b);
  if (difference.None()) return out + "the same\n";
  std::vector<std::string> keys = {"key"};
  std::vector<std::string> left = {"a"};
  std::vector<std::string> right = {"b"};
  std::vector<std::string> from = {"from"};
  const auto literal = [](const std::optional<Value>& value) { return value ? value->literal : std::string("-"); };
  const auto origin = [](const std::optional<Value>& value) {
    return value ? policy::Escape(value->origin.Format()) : std::string("nowhere");
  };
  for (const KeyPair& pair : difference.keys) {
    keys.push_back(pair.key);
    left.push_back(literal(pair.a));
    right.push_back(literal(pair.b));
    from.push_back(origin(pair.a) + " -> " + origin(pair.b));
  }
  if (!difference.keys.empty()) out += "\n";
  for (std::size_t i = 0; i < keys.size() && keys.size() > 1; ++i) {
    const bool head = i == 0;
    const std::string a_value = Padded(left[i], Widest(left));
    const std::string b_value = Padded(right[i], Widest(right));
    out += Padded(keys[i], Widest(keys)) + "  " + (head ? a_value : colored(kRemoved, a_value)) + "  " +
           (head ? b_value : colored(kAdded, b_value)) + "  " + from[i] + "\n";
  }
  if (difference.rules.empty()) return out;
  out += "\nrules, in the order in which they are asked (-: only in a, +: only in b)\n";
  std::vector<std::string> rules;
  std::vector<std::string> places;
  for (const RuleStep& step : difference.rules) {
    const Loaded& loaded = step.a ? a.loaded : b.loaded;
    const std::size_t rule = step.a ? *step.a : *step.b;
    rules.push_back(RuleText(loaded, rule));
    places.push_back(policy::Escape(loaded.origins.at(policy::RuleName(rule)).Format()));
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const RuleStep& step = difference.rules[i];
    const std::string line = Padded(rules[i], Widest(rules)) + "  " + places[i];
    if (step.a && step.b) {
      out += "  " + line + "\n";
    } else {
      out += colored(step.a ? kRemoved : kAdded, (step.a ? "- " : "+ ") + line) + "\n";
    }
  }
  return out;
}

Json SideJson(const Side& side) {
  Json files = Json::array();
  for (const LayerFile& file : side.loaded.layers) {
    if (file.found) files.push_back({{"layer", NameOf(file.layer)}, {"file", file.path}});
  }
  return {{"name", side.name}, {"files", std::move(files)}};
}

std::string JsonOf(const Difference& difference, const Side& a, const Side& b) {
  const auto value = [](const std::optional<Value>& of) -> Json {
    if (!of) return nullptr;
    return {{"value", of->json}, {"origin", OriginJson(of->origin)}};
  };
  Json keys = Json::array();
  for (const KeyPair& pair : difference.keys) {
    keys.push_back({{"key", pair.key}, {"a", value(pair.a)}, {"b", value(pair.b)}});
  }
  Json rules = Json::array();
  for (const RuleStep& step : difference.rules) {
    const Loaded& loaded = step.a ? a.loaded : b.loaded;
    const std::size_t rule = step.a ? *step.a : *step.b;
    rules.push_back({{"change", !step.b   ? "removed"
                                : !step.a ? "added"
                                          : "same"},
                     {"a", step.a ? Json(*step.a + 1) : Json(nullptr)},
                     {"b", step.b ? Json(*step.b + 1) : Json(nullptr)},
                     {"rule", RuleJson(loaded, rule)},
                     {"origin", OriginJson(loaded.origins.at(policy::RuleName(rule)))}});
  }
  const Json out = {{"a", SideJson(a)},
                    {"b", SideJson(b)},
                    {"same", difference.None()},
                    {"keys", std::move(keys)},
                    {"rules", std::move(rules)}};
  return text::JsonText(out);
}

int Diff(const DiffOptions& options) {
  const Environment env = Environment::FromProcess();
  std::vector<Side> sides;
  bool trouble = false;
  for (const std::string& name : {options.a, options.b}) {
    std::optional<Loaded> loaded = LoadSide(name, env);
    if (!loaded || Complain(*loaded) != 0) {
      trouble = true;  // and the other one's too
    } else {
      sides.push_back({name, std::move(*loaded)});
    }
  }
  if (trouble) return kTrouble;
  const Side& a = sides[0];
  const Side& b = sides[1];
  Difference difference = {.keys = DifferentKeys(a.loaded, b.loaded), .rules = {}};
  const std::vector<TransferRule>& rules = a.loaded.policy.transfer.rules;
  if (rules != b.loaded.policy.transfer.rules) {
    difference.rules = StepsBetween(rules, b.loaded.policy.transfer.rules);
  }
  const std::string text = options.json ? JsonOf(difference, a, b) : TextOf(difference, a, b, OutputTakesColor(env));
  if (Print(text) != 0) return kTrouble;
  return difference.None() ? kSame : kDifferent;
}

}  // namespace

int PolicyDiff(const DiffOptions& options) noexcept {
  // Memory that runs out is 1 to the others, which here would say that they differ.
  bool done = false;
  const int status = Guarded([&] {
    const int result = Diff(options);
    done = true;
    return result;
  });
  return done ? status : kTrouble;
}

}  // namespace slipstream::cli
