#include "policy/load.h"

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "policy/document.h"
#include "policy/nearest.h"
#include "policy/options.h"
#include "policy/rule_keys.h"
#include "policy/rule_reader.h"
#include "policy/source_file.h"
#include "policy/text.h"

namespace slipstream::policy {
namespace {

// execve refuses a longer "NAME=value" (MAX_ARG_STRLEN is 128 KiB); nobody needs as much.
constexpr std::size_t kLongestVariable = 32768;

// Keys that say where files of whoever runs the command are written.
bool WritesFiles(std::string_view key) { return key == "log.file" || key == "run.summaries"; }

// As many lines that are not UTF-8 are reported.
constexpr std::size_t kMostBadLines = 20;

bool IsVariableName(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.empty() || digit(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

std::vector<std::string> AllKeys() {
  std::vector<std::string> keys;
  for (const Option& option : Options()) keys.push_back(KeyOf(option));
  return keys;
}

bool IsTable(std::string_view name) {
  if (name == kEnvironmentTable) return true;
  return std::any_of(Tables().begin(), Tables().end(), [name](const Table& table) { return table.name == name; });
}

std::string NoteOf(const RetiredKey& retired) {
  return "\"" + std::string(retired.key) + "\" " + std::string(retired.note);
}

// Reports each line that is not UTF-8 or has a NUL, and says whether there was none.
bool CheckCharacters(const std::string& text, const std::string& name, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  int line = 1;
  int column = 1;
  int reported = 0;
  while (!rest.empty() && problems.size() - before < kMostBadLines) {
    const std::size_t length = Utf8CharacterLength(rest);
    const char first = rest.front();
    if ((length == 0 || first == '\0') && reported != line) {
      reported = line;
      problems.push_back({.file = name,
                          .line = line,
                          .column = column,
                          .what = first == '\0' ? "a NUL character" : "not UTF-8: byte " + Escape(rest.substr(0, 1))});
    }
    rest.remove_prefix(std::max<std::size_t>(length, 1));
    ++column;
    if (first == '\n') {
      ++line;
      column = 1;
    }
  }
  return problems.size() == before;
}

// Goes through one document, entry by entry.
class FileReader {
 public:
  FileReader(const std::string& name, Layer layer, Loaded& loaded)
      : name_(name), layer_(layer), loaded_(loaded), rules_(name, loaded, found_) {}

  void Read(const std::string& text) {
    if (!CheckCharacters(text, name_, loaded_.problems)) return;
    Document document = ParseDocument(text);
    if (!ReadVersion(document)) return;
    for (const Entry& entry : document.entries) ReadEntry(entry);
    rules_.Finish(document.problems.empty());
    for (Problem& problem : document.problems) {
      problem.file = name_;
      // What is no value at all was meant for a key that we know.
      const Option* option = problem.found.empty() ? nullptr : FindOptionOrRuleKey(problem.key);
      if (option != nullptr) problem.expected = Expected(*option);
      found_.push_back(std::move(problem));
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Problem& a, const Problem& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    std::move(found_.begin(), found_.end(), std::back_inserter(loaded_.problems));
  }

 private:
  enum class At { kKey, kValue };

  Problem MakeProblem(const Entry& entry, At at) const {
    return {.file = name_,
            .line = at == At::kKey ? entry.key_line : entry.line,
            .column = at == At::kKey ? entry.key_column : entry.column,
            .key = entry.Key()};
  }

  void Remember(const Entry& entry) {
    loaded_.origins[entry.Key()] = {
        .kind = Origin::Kind::kFile, .name = name_, .line = entry.line, .column = entry.column};
  }

  // A key that only a file may set that somebody named.
  void RefuseUnnamed(const Entry& entry) {
    Problem problem = MakeProblem(entry, At::kKey);
    problem.what = "\"" + Escape(entry.Key()) + "\" may not stand in a project's file that nobody named";
    problem.expected = "--policy " + name_ + " on the command line, if you trust it";
    found_.push_back(std::move(problem));
  }

  // A file for another version is not judged by the rules of this one: false, with that one problem.
  bool ReadVersion(const Document& document) {
    const auto entry = std::find_if(document.entries.begin(), document.entries.end(),
                                    [](const Entry& e) { return e.path.size() == 1 && e.path[0] == "version"; });
    if (entry == document.entries.end()) {
      // An error in the very line that sets it says enough.
      const auto about = [](const Problem& p) { return p.key == "version"; };
      if (document.complete && std::none_of(document.problems.begin(), document.problems.end(), about)) {
        found_.push_back({.file = name_,
                          .line = 1,
                          .column = 1,
                          .key = "version",
                          .what = "\"version\" is missing",
                          .expected = "version = " + std::to_string(kVersion)});
      }
      return true;
    }
    if (entry->kind != Entry::Kind::kInteger || entry->value.number == kVersion) return true;
    Problem problem = MakeProblem(*entry, At::kValue);
    problem.what = "a policy version that this slipstream does not know; nothing else was checked";
    problem.found = entry->Found();
    problem.expected = std::to_string(kVersion);
    loaded_.problems.push_back(std::move(problem));
    return false;
  }

  static const Option* FindOptionOrRuleKey(std::string_view key) {
    if (const Option* option = FindOption(key)) return option;
    const std::string rule = std::string(kRuleTable) + ".";
    const RuleKey* const found = key.starts_with(rule) ? FindRuleKey(key.substr(rule.size())) : nullptr;
    return found != nullptr ? &found->option : nullptr;
  }

  void ReadEntry(const Entry& entry) {
    if (rules_.Read(entry)) return;
    if (entry.element != 0) return;  // in an array of tables, which is refused as a whole
    if (entry.path[0] == kEnvironmentTable && entry.path.size() > 1) {
      if (entry.path.size() == 2) ReadVariable(entry);  // A third part's problem is the second's: a table.
      return;
    }
    if (entry.path.size() == 1 && IsTable(entry.path[0])) {
      if (entry.kind == Entry::Kind::kTable || entry.kind == Entry::Kind::kEmptyTable) return;
      Problem problem = MakeProblem(entry, At::kValue);
      problem.found = entry.Found();
      problem.expected = "a table";
      found_.push_back(std::move(problem));
      return;
    }
    const std::string key = entry.Key();
    if (const Option* option = FindOption(key)) {
      Problem problem = MakeProblem(entry, At::kValue);
      if (const auto value = Accept(*option, entry, problem)) {
        if (layer_ == Layer::kProject && WritesFiles(key) && !value->text.empty()) return RefuseUnnamed(entry);
        option->set(loaded_.policy, *value);
        Remember(entry);
        if (!problem.what.empty()) loaded_.notes.push_back(std::move(problem));
      } else {
        found_.push_back(std::move(problem));
      }
      return;
    }
    // A table in the place of a value, or one that is unknown, is reported once: as itself, or key by key.
    if (entry.kind == Entry::Kind::kTable || IsInsideOption(entry)) return;
    Problem problem = MakeProblem(entry, At::kKey);
    if (const RetiredKey* retired = FindRetired(key)) {
      problem.what = NoteOf(*retired);
      loaded_.notes.push_back(std::move(problem));
      return;
    }
    const bool table = entry.kind == Entry::Kind::kEmptyTable || entry.kind == Entry::Kind::kTableArray;
    problem.what = (table ? "unknown table \"" : "unknown key \"") + Escape(key) + "\"";
    problem.suggestion = table ? NearestTable(key) : Nearest(key, AllKeys());
    found_.push_back(std::move(problem));
  }

  static bool IsInsideOption(const Entry& entry) {
    Entry above = entry;
    while (above.path.size() > 1) {
      above.path.pop_back();
      if (FindOption(above.Key()) != nullptr) return true;
    }
    return false;
  }

  static std::string NearestTable(const std::string& key) {
    std::vector<std::string> names{std::string(kEnvironmentTable)};
    for (const Table& table : Tables()) names.emplace_back(table.name);
    return Nearest(key, names);
  }

  void ReadVariable(const Entry& entry) {
    const std::string& name = entry.path[1];
    Problem problem = MakeProblem(entry, At::kKey);
    if (!IsVariableName(name)) {
      problem.what = "\"" + Escape(entry.Key()) + "\" does not name a variable";
      problem.expected = "letters, digits and _, no digit first";
    } else if (name == "LD_PRELOAD") {
      problem.what = "LD_PRELOAD may not be set here: slipstream run sets it, and keeps what the user has in it";
    } else if (name.starts_with(kVariablePrefix)) {
      problem.what = name + " may not be set here: this file is where slipstream's own settings stand";
    } else if (entry.kind != Entry::Kind::kString) {
      problem = MakeProblem(entry, At::kValue);
      problem.found = entry.Found();
      problem.expected = "text in quotes";
    } else if (entry.value.text.find('\0') != std::string::npos) {
      problem = MakeProblem(entry, At::kValue);
      problem.found = entry.Found();
      problem.expected = "text without NUL";
    } else if (name.size() + entry.value.text.size() > kLongestVariable) {
      problem = MakeProblem(entry, At::kValue);
      problem.what = "\"" + entry.Key() + "\" is too long";
      problem.expected = "at most " + std::to_string(kLongestVariable) + " bytes with its name";
    } else if (layer_ == Layer::kProject) {
      return RefuseUnnamed(entry);
    } else {
      loaded_.policy.environment[name] = entry.value.text;
      Remember(entry);
      return;
    }
    found_.push_back(std::move(problem));
  }

  const std::string& name_;
  const Layer layer_;
  Loaded& loaded_;
  std::vector<Problem> found_;
  RuleReader rules_;
};

// The number of a rule in the name of an origin ("transfer.rule[2].promote"), moved up by `count`.
std::string MovedUp(const std::string& key, std::size_t count) {
  const std::size_t open = key.find('[');
  const std::size_t close = key.find(']');
  const auto number = static_cast<std::size_t>(std::strtoul(key.c_str() + open + 1, nullptr, 10));
  return RuleName(number - 1 + count) + key.substr(close + 1);
}

bool IsOfARule(const std::string& key) { return key.starts_with(std::string(kRuleTable) + "["); }

// Puts what one file sets over what those before it did.
void Overlay(Loaded& file, const LayerFile& which, Loaded& loaded) {
  std::vector<TransferRule>& before = loaded.policy.transfer.rules;
  std::vector<TransferRule>& rules = file.policy.transfer.rules;
  if (!rules.empty()) {
    std::map<std::string, Origin> moved;
    for (auto& [key, origin] : loaded.origins) {
      moved[IsOfARule(key) ? MovedUp(key, rules.size()) : key] = std::move(origin);
    }
    loaded.origins = std::move(moved);
    before.insert(before.begin(), rules.begin(), rules.end());
  }
  for (auto& [key, origin] : file.origins) {
    origin.layer = which.layer;
    if (const Option* option = FindOption(key)) option->set(loaded.policy, option->get(file.policy));
    loaded.origins[key] = std::move(origin);
  }
  for (auto& [name, value] : file.policy.environment) loaded.policy.environment[name] = std::move(value);
}

void ReadText(const std::string& text, const LayerFile& which, Loaded& loaded) {
  Loaded file;
  FileReader(which.path, which.layer, file).Read(text);
  const bool ok = file.problems.empty();
  std::move(file.notes.begin(), file.notes.end(), std::back_inserter(loaded.notes));
  std::move(file.problems.begin(), file.problems.end(), std::back_inserter(loaded.problems));
  if (!ok) return;  // nothing of it will be used
  Overlay(file, which, loaded);
  if (loaded.policy.transfer.rules.size() > kMostRules && loaded.problems.empty()) {
    loaded.problems.push_back(
        {.file = which.path,
         .key = std::string(kRuleTable),
         .what = "more than " + std::to_string(kMostRules) + " rules, with those of the files before it"});
  }
}

// Reads loaded.layers, in their order.
void ReadLayers(Loaded& loaded) {
  int named = 0;
  for (const LayerFile& file : loaded.layers) {
    if (!file.found) continue;
    if (file.layer == Layer::kNamed) loaded.path = ++named == 1 ? std::optional(file.path) : std::nullopt;
    if (file.path.empty()) {
      loaded.problems.push_back({.file = "policy file", .what = "the name is empty"});
      continue;
    }
    const auto text = ReadPolicyFile(file.path, kMaxFileSize, loaded.problems);
    if (!text) continue;
    loaded.texts.push_back({.file = file, .text = *text});
    ReadText(*text, file, loaded);
  }
}

// The policy that the run of this process began with. False: there is none, or the process was given another since.
bool ReadRunPolicy(const Environment& env, Loaded& loaded) {
  const auto text = env.Get(kRunPolicyVariable);
  const std::optional<RunPolicy> run = text ? ParseRunPolicy(*text) : std::nullopt;
  if (!run || run->list != env.Get(kPolicyVariable).value_or("")) return false;
  int named = 0;
  for (const FileText& file : run->files) {
    loaded.layers.push_back(file.file);
    if (file.file.layer == Layer::kNamed) loaded.path = ++named == 1 ? std::optional(file.file.path) : std::nullopt;
    ReadText(file.text, file.file, loaded);
  }
  return true;
}

constexpr std::string_view kReservedVariables[] = {
    kPolicyVariable,    kDisableVariable,  kRunDirectoryVariable,   kRunVariable,
    kRunPolicyVariable, kChildrenVariable, kSystemDirectoryVariable};

bool IsReserved(std::string_view name) {
  return std::find(std::begin(kReservedVariables), std::end(kReservedVariables), name) != std::end(kReservedVariables);
}

// The variable of ours that somebody probably meant; empty: it is somebody else's. What all have in common makes
// nothing near.
std::string NearestVariable(std::string_view name) {
  std::vector<std::string> rests;
  for (const std::string_view known : kReservedVariables) rests.emplace_back(known.substr(kVariablePrefix.size()));
  for (const Option& option : Options()) {
    if (option.overridable) rests.push_back(VariableOf(option).substr(kVariablePrefix.size()));
  }
  const std::string nearest = Nearest(name.substr(kVariablePrefix.size()), rests);
  return nearest.empty() ? nearest : std::string(kVariablePrefix) + nearest;
}

void ReadVariables(const Environment& env, Loaded& loaded) {
  for (const auto& [name, text] : env.variables()) {
    if (!name.starts_with(kVariablePrefix) || IsReserved(name)) continue;
    const std::string& variable = name;
    const auto same = [&variable](const Option& o) { return VariableOf(o) == variable; };
    const auto option = std::find_if(Options().begin(), Options().end(), same);
    Problem problem{.variable = name};
    if (const RetiredKey* retired = FindRetired(name)) {
      problem.what = NoteOf(*retired);
      loaded.notes.push_back(std::move(problem));
      continue;
    }
    if (option == Options().end()) {
      if (name.starts_with("SLIPSTREAM_ENVIRONMENT_")) {
        problem.what = "[environment] has no overrides: set the variable itself";
      } else if (name.starts_with("SLIPSTREAM_TRANSFER_RULE")) {
        problem.what = "[[transfer.rule]] has no overrides: rules stand in the policy file";
      } else {
        problem.what = "not one that slipstream knows";
        problem.suggestion = NearestVariable(name);
        if (problem.suggestion.empty()) {
          loaded.foreign.push_back(name);
          continue;
        }
      }
    } else {
      problem.key = KeyOf(*option);
      if (!option->overridable) {
        problem.what = "\"" + problem.key + "\" belongs to the file and has no override";
      } else if (const auto value = AcceptText(*option, text, problem)) {
        option->set(loaded.policy, *value);
        loaded.origins[problem.key] = {.kind = Origin::Kind::kEnvironment, .name = name};
        if (!problem.what.empty()) loaded.notes.push_back(std::move(problem));
        continue;
      }
    }
    loaded.problems.push_back(std::move(problem));
  }
}

// Runs `fill` on a fresh Loaded whose origins are all defaults, then the variables.
template <typename Fill>
Loaded LoadWith(const Environment& env, Fill fill) noexcept {
  Loaded loaded;
  try {
    for (const Option& option : Options()) loaded.origins[KeyOf(option)] = {};
    fill(loaded);
    ReadVariables(env, loaded);
    loaded.out_of_memory = !env.complete();
  } catch (...) {  // Memory ran out; nothing else throws.
    loaded.out_of_memory = true;
  }
  if (!loaded.ok()) {
    loaded.policy = Policy();
    loaded.policy.enabled = false;
  }
  return loaded;
}

}  // namespace

std::string Origin::Format() const {
  if (kind == Kind::kDefault) return "default";
  const std::string place = line > 0 ? name + ":" + std::to_string(line) : name;
  return kind == Kind::kFile && layer != Layer::kNamed ? std::string(NameOf(layer)) + " " + place : place;
}

std::vector<std::string> Loaded::ForeignText() const {
  std::vector<std::string> lines;
  for (const std::string& name : foreign) {
    lines.push_back("environment variable " + Escape(name) + ": ignored, no key of the policy has that name");
  }
  return lines;
}

bool IsOwnVariable(std::string_view name) {
  const auto is_it = [name](const Option& option) { return VariableOf(option) == name; };
  return name.starts_with(kVariablePrefix) &&
         (IsReserved(name) || std::any_of(Options().begin(), Options().end(), is_it));
}

std::string Loaded::Files() const {
  std::string out;
  for (const LayerFile& file : layers) {
    if (!file.found) continue;
    if (!out.empty()) out += ", ";
    if (file.layer != Layer::kNamed) out.append(NameOf(file.layer)).append(" ");
    out += file.path;
  }
  return out.empty() ? "defaults" : out;
}

std::string PolicyListFor(const Loaded& loaded) {
  std::vector<std::string> names;
  for (const LayerFile& file : loaded.layers) {
    if (file.found && file.layer != Layer::kSystem) names.push_back(Absolute(file.path));
  }
  return JoinPolicyList(names);
}

std::string RunPolicyFor(const Loaded& loaded) {
  RunPolicy run = {.list = PolicyListFor(loaded), .files = loaded.texts};
  for (FileText& text : run.files) text.file.path = Absolute(text.file.path);
  return FormatRunPolicy(run);
}

Loaded Load(const Source& source) noexcept {
  return LoadWith(source.env, [&source](Loaded& loaded) {
    const bool in_a_run = source.search == Search::kProcess && !source.path;
    if (in_a_run && ReadRunPolicy(source.env, loaded)) return;
    loaded.layers = FindLayers({.search = source.search, .named = source.path}, source.env, loaded.problems);
    ReadLayers(loaded);
  });
}

Loaded LoadFiles(std::vector<LayerFile> files, const Environment& env) noexcept {
  return LoadWith(env, [&files](Loaded& loaded) {
    loaded.layers = std::move(files);
    ReadLayers(loaded);
  });
}

Loaded LoadText(const std::string& text, const std::string& name, const Environment& env) noexcept {
  return LoadWith(env, [&](Loaded& loaded) {
    loaded.path = name;
    loaded.layers.push_back({.layer = Layer::kNamed, .path = name, .found = true});
    if (text.size() > kMaxFileSize) {
      loaded.problems.push_back(
          {.file = name, .what = "is larger than " + FormatSize(kMaxFileSize) + ", the most that is read"});
      return;
    }
    ReadText(text, loaded.layers.back(), loaded);
  });
}

}  // namespace slipstream::policy
