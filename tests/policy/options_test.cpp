#include "policy/options.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "policy/load.h"
#include "policy/render.h"
#include "policy/rule_keys.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

// Becomes a field of any type, so that the compiler can be asked how many an aggregate takes.
struct AnyField {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor): the point of it.
};

template <typename T, typename... Fields>
constexpr std::size_t CountFields() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return CountFields<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

struct Three {
  int a;
  std::string b;
  std::map<std::string, std::string> c;
};
static_assert(CountFields<Three>() == 3);

// A value that differs from the one held. Enumerations take any number of their underlying type.
Value Other(const Value& value) {
  if (value.kind == Value::Kind::kFlag) return !value.flag;
  if (value.kind == Value::Kind::kNumber) return value.number + 7;
  if (value.kind == Value::Kind::kList) return std::vector<std::string>{"other", "*"};
  return value.text + "x";
}

// How a value is written in an environment variable.
std::string InVariable(const Option& option, const Value& value) {
  if (option.type == OptionType::kString) return value.text;
  if (option.type == OptionType::kList) {
    std::string text;
    for (const std::string& one : value.list) text += (text.empty() ? "" : ":") + one;
    return text;
  }
  const std::string literal = Literal(option, value);
  return literal.starts_with('"') ? literal.substr(1, literal.size() - 2) : literal;
}

TEST(Options, EveryFieldHasARow) {
  const std::size_t tables = CountFields<Log>() + CountFields<Intercept>() + CountFields<policy::Run>() +
                             CountFields<Children>() + CountFields<Allocator>() + CountFields<Transfer>() +
                             CountFields<policy::Host>() + CountFields<Tracer>();
  // Of the policy's own fields, eight are those tables and one is [environment]; one of Transfer's is its rules.
  const std::size_t fields = tables + CountFields<Policy>() - 10;
  EXPECT_EQ(Options().size(), fields) << "a field of policy.h without a row in options.cpp, or a row without a field";
  EXPECT_EQ(RuleKeys().size(), CountFields<TransferRule>()) << "the same for rule_keys.cpp";
}

TEST(Options, EachRowReadsAndWritesAFieldOfItsOwn) {
  for (const Option& option : Options()) {
    Policy policy;
    option.set(policy, Other(option.get(policy)));
    for (const Option& other : Options()) {
      const bool changed = other.get(policy) != other.get(Policy());
      EXPECT_EQ(changed, &other == &option) << KeyOf(option) << " against " << KeyOf(other);
    }
  }
}

TEST(Options, NamesAreUniqueAndTablesKnown) {
  std::set<std::string> keys;
  std::set<std::string> variables;
  std::set<std::string_view> tables{""};
  for (const Table& table : Tables()) EXPECT_TRUE(tables.insert(table.name).second) << table.name;
  for (const Option& option : Options()) {
    EXPECT_TRUE(keys.insert(KeyOf(option)).second) << KeyOf(option);
    EXPECT_TRUE(variables.insert(VariableOf(option)).second) << VariableOf(option);
    EXPECT_TRUE(tables.contains(option.table)) << KeyOf(option);
    EXPECT_TRUE(option.doc.ends_with('.')) << KeyOf(option);
    EXPECT_EQ(FindOption(KeyOf(option)), &option);
  }
}

TEST(Options, DefaultsAreAcceptedAsTheyAreWritten) {
  for (const Option& option : Options()) {
    const Value value = option.get(Policy());
    Problem problem;
    EXPECT_EQ(AcceptText(option, InVariable(option, value), problem), value) << KeyOf(option);
  }
}

// Every value that an option accepts, in the file and in its variable; the edges of the range for numbers.
TEST(Options, EveryAcceptedValueWorksInTheFileAndInTheVariable) {
  const Environment none(Variables{});
  for (const Option& option : Options()) {
    std::vector<Value> values{option.get(Policy())};
    if (option.type == OptionType::kBool) values = {true, false};
    if (option.type == OptionType::kInteger || option.type == OptionType::kSize) values = {option.min, option.max};
    if (option.type == OptionType::kString) values = {std::string(), std::string("/tmp/a \"b\".log")};
    if (option.is_valid != nullptr) {
      const std::string text = KeyOf(option) == "tracer.window" ? "steps 10-20,500-" : "/tmp/a \"b\"";
      values = {std::string(), text};
    }
    if (option.type == OptionType::kList) {
      values = {std::vector<std::string>(), std::vector<std::string>{"git", "*/bin/[a-z]?\\"},
                std::vector<std::string>(kMostPatterns, std::string(kLongestPattern, 'x'))};
    }
    if (option.type == OptionType::kChoice) {
      values.clear();
      for (std::size_t i = 0; i < option.choices.size(); ++i) values.emplace_back(static_cast<std::int64_t>(i));
    }
    for (const Value& value : values) {
      const std::string literal = Literal(option, value);
      const std::string version = KeyOf(option) == "version" ? "" : "version = 1\n";
      const Loaded from_file = LoadText(version + KeyOf(option) + " = " + literal + "\n", "p", none);
      ASSERT_TRUE(from_file.ok()) << from_file.problems[0].Format();
      EXPECT_EQ(option.get(from_file.policy), value) << literal;
      EXPECT_EQ(from_file.origins.at(KeyOf(option)).kind, Origin::Kind::kFile);
      if (!option.overridable) continue;

      // The file says something else, where there is something else.
      const Value& other = values.front() == value ? values.back() : values.front();
      const Loaded both = LoadText(version + KeyOf(option) + " = " + Literal(option, other) + "\n", "p",
                                   Environment(Variables{{VariableOf(option), InVariable(option, value)}}));
      ASSERT_TRUE(both.ok()) << both.problems[0].Format();
      EXPECT_EQ(option.get(both.policy), value) << VariableOf(option) << " " << literal;
      EXPECT_EQ(both.origins.at(KeyOf(option)).Format(), VariableOf(option));
    }
  }
}

TEST(Options, YesAndNoInVariables) {
  const auto accepted = [](const char* key, std::string_view text) -> std::optional<Value> {
    Problem problem;
    return AcceptText(*FindOption(key), text, problem);
  };
  for (const char* const yes : {"true", "TRUE", "yes", "Yes", "on", "ON", "1"}) {
    EXPECT_EQ(accepted("enabled", yes), Value(true)) << yes;
    EXPECT_EQ(accepted("transfer.h2d", yes), accepted("transfer.h2d", "on")) << yes;
  }
  for (const char* const no : {"false", "no", "NO", "off", "Off", "0"}) {
    EXPECT_EQ(accepted("enabled", no), Value(false)) << no;
    EXPECT_EQ(accepted("transfer.h2d", no), accepted("transfer.h2d", "off")) << no;
    EXPECT_EQ(accepted("allocator.mode", no), accepted("allocator.mode", "off")) << no;
  }
  // Which of several that are not off?
  EXPECT_EQ(accepted("allocator.mode", "yes"), std::nullopt);
  EXPECT_EQ(accepted("tracer.stacks", "no"), std::nullopt);
  EXPECT_EQ(accepted("transfer.threads", "1"), Value(std::int64_t{1}));
}

TEST(Options, EveryRowRefusesWhatItDoesNotAccept) {
  const Environment none(Variables{});
  for (const Option& option : Options()) {
    std::vector<std::string> literals{"1.5", "[1]", "1979-05-27", "{ x = 1 }"};
    std::vector<std::string> texts;
    switch (option.type) {
      case OptionType::kBool:
        literals.insert(literals.end(), {"\"true\"", "1"});
        texts = {"", "2", "maybe", "y", "true "};
        break;
      case OptionType::kInteger:
      case OptionType::kSize:
        literals.insert(literals.end(),
                        {std::to_string(option.min - 1), std::to_string(option.max + 1), "-1", "true", "\"many\""});
        texts = {"", std::to_string(option.min - 1), std::to_string(option.max + 1), "-1", "1x"};
        break;
      case OptionType::kChoice:
        literals.insert(literals.end(), {"\"\"", "\"OFF\"", "0", "false"});
        texts = {"", "OF", "2"};
        break;
      case OptionType::kString:
        literals.insert(literals.end(), {"1", "true", "\"a\\u0000b\""});
        if (option.is_valid != nullptr) {
          literals.emplace_back("\"steps\"");
          texts = {"steps", "10-20"};
        }
        break;
      case OptionType::kList: {
        literals.insert(literals.end(), {"\"git\"", "1", "true", "[\"\"]", "[\"a:b\"]", "[\"a\\nb\"]", "[\"a\", 1]"});
        literals.push_back("[\"" + std::string(kLongestPattern + 1, 'x') + "\"]");
        std::string many = "x";
        for (std::size_t i = 0; i < kMostPatterns; ++i) many += ":x";
        texts = {":", "a:", ":a", "a::b", std::string(kLongestPattern + 1, 'x'), many};
        break;
      }
    }
    for (const std::string& literal : literals) {
      const std::string version = KeyOf(option) == "version" ? "" : "version = 1\n";
      const Loaded loaded = LoadText(version + KeyOf(option) + " = " + literal + "\n", "p", none);
      ASSERT_EQ(loaded.problems.size(), 1U) << KeyOf(option) << " = " << literal;
      EXPECT_EQ(loaded.problems[0].key, KeyOf(option));
      EXPECT_EQ(loaded.problems[0].expected, Expected(option));
      EXPECT_FALSE(loaded.policy.enabled) << "what cannot be used must not look usable";
    }
    for (const std::string& text : texts) {
      if (!option.overridable) continue;
      const Loaded loaded = Load({.path = std::nullopt, .env = Environment(Variables{{VariableOf(option), text}})});
      ASSERT_EQ(loaded.problems.size(), 1U) << VariableOf(option) << "=" << text;
      EXPECT_TRUE(loaded.problems[0].Format().starts_with("environment variable " + VariableOf(option) + ": found "))
          << loaded.problems[0].Format();
    }
  }
}

TEST(Options, TheReferenceIsWhatTheTableSays) {
  EXPECT_EQ(test::ReadFile(SLIPSTREAM_POLICY_REFERENCE), ReferenceMarkdown())
      << "docs/policy.md is not what policy/options.cpp says: build the target policy-reference";
}

TEST(Options, TheTemplateFitsAScreen) {
  const std::string text = TemplateToml();
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    EXPECT_LE(line.size(), 120U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    begin = end + 1;
  }
  EXPECT_EQ(begin, text.size()) << "the last line has no end";
}

TEST(Options, TheTemplateIsTheDefaultsAndSoAreItsCommentedLines) {
  const Environment none(Variables{});
  const std::string text = TemplateToml();
  const Loaded as_written = LoadText(text, "p", none);
  ASSERT_TRUE(as_written.ok()) << as_written.problems[0].Format();
  EXPECT_EQ(as_written.policy, Policy());

  // Uncommented: a line "#key = value" is a setting, "# Text" an explanation.
  std::string uncommented;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool first = i == 0 || text[i - 1] == '\n';
    if (!(first && text[i] == '#' && i + 1 < text.size() && text[i + 1] != ' ')) uncommented += text[i];
  }
  const Loaded live = LoadText(uncommented, "p", none);
  ASSERT_TRUE(live.ok()) << live.problems[0].Format();
  Policy expected;
  expected.environment["NVIDIA_TF32_OVERRIDE"] = "1";
  ASSERT_EQ(live.policy.transfer.rules.size(), 1U);
  expected.transfer.rules = live.policy.transfer.rules;
  EXPECT_EQ(live.policy, expected);
  for (const RuleKey& key : RuleKeys()) {
    EXPECT_TRUE(live.origins.contains(RuleName(0) + "." + std::string(key.option.key))) << key.option.key;
    EXPECT_EQ(Literal(key.option, key.get(live.policy.transfer.rules[0])), key.example);
  }
  for (const Option& option : Options()) {
    EXPECT_EQ(live.origins.at(KeyOf(option)).kind, Origin::Kind::kFile) << KeyOf(option) << " is not in the template";
  }
}

}  // namespace
}  // namespace slipstream::policy
