// The parser against 200,000 damaged policies. Seeded, so that a failure can be had again: the failing text is printed.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "policy/load.h"
#include "policy/options.h"
#include "policy/render.h"
#include "policy/rule_keys.h"
#include "policy/statements.h"
#include "policy/text.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

constexpr unsigned kInputs = 200000;
constexpr unsigned kParts = 4;
constexpr std::size_t kLongest = 600;

const std::array<std::string_view, 10> kSeeds = {
    "version = 1\n[log]\nlevel = \"debug\"\nfile = '/tmp/x'\nmax_size = \"64KiB\"\n",
    "version = 1\nenabled = false\ntransfer = { h2d = \"off\", d2h = \"off\" }\n",
    "version = 1\n[tracer]\nmax_threads = 0x10 # comment\nnvtx = true\ncounters = \"calls\"\n",
    "version = 1\n[environment]\nA = \"1\"\nB = \"\"\"\nx\\\n  y\"\"\"\nC = '''z'''\n",
    "version = 1\nlog.level = \"info\"\nlog.max_size = 1_000_000\n\"a b\".c = [1, [2, 3],\n 4]\n",
    "\xEF\xBB\xBFversion = 1\r\n[[a]]\r\nb = 1979-05-27T07:32:00Z\r\nc = 1e5\r\nd = inf\r\n",
    "version=1\n\"\\u00e9\" = \"\\U0001F600\\t\\\"\"\n[a.\"b.c\".d]\ne = -0.5\n",
    "version = 1\n[[transfer.rule]]\nname = \"x\"\nmin_size = \"1MiB\"\npromote = true\n[[transfer.rule]]\n"
    "direction = \"h2d\"\nmax_size = 9\ndevice = 1\nskip_synchronize = false\n",
    "version = 1\ntransfer.rule = [{ promote = false, max_size = \"2kB\" },\n { skip_synchronize = true, device = 3 "
    "}]\n",
    "version = 2\n[future]\nkey = { x = 1 }\n",
};

const std::array<std::string_view, 32> kWords = {"\n",
                                                 "\"",
                                                 "'",
                                                 "\"\"\"",
                                                 "'''",
                                                 "[",
                                                 "]",
                                                 "[[",
                                                 "]]",
                                                 "{",
                                                 "}",
                                                 "=",
                                                 ".",
                                                 ",",
                                                 "#",
                                                 "\\u",
                                                 "\\U0001",
                                                 "\xff",
                                                 "\xc3",
                                                 "é",
                                                 "\r\n",
                                                 "version",
                                                 "level",
                                                 "log.",
                                                 "on",
                                                 "\x01",
                                                 "1e999",
                                                 "64KiB",
                                                 "-",
                                                 "_",
                                                 "[[transfer.rule]]\n",
                                                 "promote = true\n"};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string Next() {
    std::string text(kSeeds[Below(kSeeds.size())]);
    for (std::size_t edits = 1 + Below(6); edits > 0; --edits) Edit(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  std::size_t Below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void Edit(std::string& text) {
    const std::size_t at = Below(text.size() + 1);
    const std::size_t length = Below(12);
    switch (Below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << Below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(Below(256)));
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(at, text.substr(Below(text.size() + 1), length));
        break;
      case 5: {
        const std::string_view other = kSeeds[Below(kSeeds.size())];
        text = text.substr(0, at) + std::string(other.substr(Below(other.size() + 1)));
        break;
      }
      case 6:
        text.resize(at);
        break;
      default:
        text.insert(at, kWords[Below(kWords.size())]);
    }
  }

  std::mt19937 random_;
};

bool IsPrintable(std::string_view line) {
  while (!line.empty()) {
    const std::size_t length = Utf8CharacterLength(line);
    const auto byte = static_cast<unsigned char>(line.front());
    if (length == 0 || byte < 0x20 || byte == 0x7f) return false;
    line.remove_prefix(length);
  }
  return true;
}

int LineCount(std::string_view text) {
  int lines = 1;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  return lines;
}

// What must hold for rules that were accepted; returns what does not.
std::string BrokenRules(const Loaded& loaded) {
  const std::vector<TransferRule>& rules = loaded.policy.transfer.rules;
  if (rules.size() > kMostRules) return "too many rules";
  std::string text = "version = 1\n";
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].min_size > rules[i].max_size) return "sizes of no copy";
    if (rules[i].promote == RuleSwitch::kUnsaid && rules[i].skip_synchronize == RuleSwitch::kUnsaid) {
      return "a rule without an action";
    }
    if (!IsPrintable(rules[i].name)) return "";
    text.append("[[").append(kRuleTable).append("]]\n");
    for (const RuleKey& key : RuleKeys()) {
      if (!loaded.origins.contains(RuleName(i) + "." + std::string(key.option.key))) continue;
      text.append(key.option.key).append(" = ").append(Literal(key.option, key.get(rules[i]))).append("\n");
    }
  }
  const Loaded again = LoadText(text, "p", Environment(Variables{}));
  return again.ok() && again.policy.transfer.rules == rules ? "" : "cannot be read back: " + text;
}

// What must hold for any text; returns what does not.
std::string Broken(const std::string& text, const Environment& env, unsigned* accepted) {
  const Loaded loaded = LoadText(text, "p.toml", env);
  if (loaded.out_of_memory) return "out of memory";
  if (loaded.ok()) {
    ++*accepted;
    if (loaded.policy.version != kVersion) return "a wrong version was accepted";
    for (const Option& option : Options()) {
      // What was accepted can be written and is accepted again.
      const Value value = option.get(loaded.policy);
      const std::string version = KeyOf(option) == "version" ? "" : "version = 1\n";
      if (option.type == OptionType::kString && !IsPrintable(value.text)) continue;
      if (!std::all_of(value.list.begin(), value.list.end(), IsPrintable)) continue;
      if (loaded.origins.at(KeyOf(option)).kind == Origin::Kind::kDefault) continue;
      const Loaded again =
          LoadText(version + KeyOf(option) + " = " + Literal(option, value), "p", Environment(Variables{}));
      if (!again.ok() || option.get(again.policy) != value) return "cannot be read back: " + KeyOf(option);
    }
    if (std::string broken = BrokenRules(loaded); !broken.empty()) return broken;
  } else if (loaded.policy.enabled) {
    return "a broken policy is enabled";
  }
  for (const Problem& problem : loaded.problems) {
    const std::string line = problem.Format();
    if (!IsPrintable(line)) return "not one printable line: " + line;
    if (problem.line < 0 || problem.line > LineCount(text)) return "a line that is not there: " + line;
    if (problem.line > 0 && problem.column < 1) return "no column: " + line;
    if (problem.what.empty() && problem.found.empty()) return "says nothing: " + line;
  }
  std::size_t end = 0;
  for (const Statement& statement : OutlineOf(text).statements) {
    if (statement.begin != end || statement.end <= statement.begin) return "statements leave a gap";
    end = statement.end;
  }
  return end == text.size() ? "" : "statements end early";
}

// In parts, so that ctest can run them side by side.
class Fuzz : public ::testing::TestWithParam<unsigned> {};

TEST_P(Fuzz, DamagedPoliciesNeverDoHarm) {
  const Environment none(Variables{});
  Mutator mutator(GetParam());
  unsigned accepted = 0;
  for (unsigned i = 0; i < kInputs / kParts; ++i) {
    const std::string text = mutator.Next();
    const std::string broken = Broken(text, none, &accepted);
    ASSERT_EQ(broken, "") << "input " << i << ": " << Quote(text, std::string::npos);
  }
  // Both sides of the parser were reached.
  EXPECT_GT(accepted, kInputs / kParts / 100);
  EXPECT_LT(accepted, kInputs / kParts / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, ::testing::Range(1U, 1U + kParts));

TEST(FuzzVariables, DamagedVariablesNeverDoHarm) {
  Mutator mutator(7);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = mutator.Next();
    const Option& option = Options()[static_cast<std::size_t>(i) % Options().size()];
    const std::string value = text.substr(0, text.find('\0'));
    const Environment env(Variables{{VariableOf(option), value}, {"SLIPSTREAM_" + value.substr(0, 20), "x"}});
    unsigned accepted = 0;
    ASSERT_EQ(Broken("version = 1\n", env, &accepted), "")
        << VariableOf(option) << "=" << Quote(value, std::string::npos);
  }
}

}  // namespace
}  // namespace slipstream::policy
