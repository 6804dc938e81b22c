// [[transfer.rule]]: what arrives, and that a rule is refused exactly where no copy can reach it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "policy/load.h"
#include "policy/rule_keys.h"
#include "policy/transfer_plan.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

Loaded LoadRules(const std::string& text) {
  return LoadText("version = 1\n" + text, "p.toml", Environment(Variables{}));
}

TEST(Rules, EveryKeyArrivesWithItsOrigin) {
  const Loaded loaded = LoadRules(
      "[[transfer.rule]]\n"
      "name = \"a \\\"b\\\"\"\n"
      "direction = \"d2h\"\n"
      "min_size = \"1MiB\"\n"
      "max_size = 2097152\n"
      "device = 255\n"
      "promote = true\n"
      "skip_synchronize = false\n"
      "[transfer]\n"
      "h2d = \"off\"\n"
      "[[ transfer . rule ]] # the second\n"
      "  direction = \"h2d\"\n"
      "  promote = false\n");
  ASSERT_TRUE(loaded.ok()) << loaded.problems[0].Format();
  TransferRule first;
  first.name = "a \"b\"";
  first.direction = RuleDirection::kDeviceToHost;
  first.min_size = std::uint64_t{1} << 20;
  first.max_size = std::uint64_t{2} << 20;
  first.device = 255;
  first.promote = RuleSwitch::kTrue;
  first.skip_synchronize = RuleSwitch::kFalse;
  TransferRule second;
  second.direction = RuleDirection::kHostToDevice;
  second.promote = RuleSwitch::kFalse;
  Policy expected;
  expected.transfer.h2d = TransferMode::kOff;
  expected.transfer.rules = {first, second};
  EXPECT_EQ(loaded.policy, expected);

  EXPECT_EQ(loaded.origins.at("transfer.rule[1]").Format(), "p.toml:2");
  EXPECT_EQ(loaded.origins.at("transfer.rule[1].min_size"),
            (Origin{.kind = Origin::Kind::kFile, .name = "p.toml", .line = 5, .column = 12}));
  EXPECT_EQ(loaded.origins.at("transfer.rule[2]"),
            (Origin{.kind = Origin::Kind::kFile, .name = "p.toml", .line = 12, .column = 1}));
  EXPECT_EQ(loaded.origins.at("transfer.rule[2].promote").Format(), "p.toml:14");
  EXPECT_FALSE(loaded.origins.contains("transfer.rule[2].device")) << "what is not set has no origin";
}

TEST(Rules, MayStandInOneLine) {
  const Loaded loaded = LoadRules("transfer.rule = [{ promote = false, max_size = 5 }, { skip_synchronize = true }]\n");
  ASSERT_TRUE(loaded.ok()) << loaded.problems[0].Format();
  ASSERT_EQ(loaded.policy.transfer.rules.size(), 2U);
  EXPECT_EQ(loaded.policy.transfer.rules[0].max_size, 5U);
  EXPECT_EQ(loaded.policy.transfer.rules[1].skip_synchronize, RuleSwitch::kTrue);
}

TEST(Rules, AsManyAsAreAllowed) {
  std::string text;
  for (std::size_t i = 1; i <= kMostRules; ++i) {
    const std::string size = std::to_string(i);
    text += "[[transfer.rule]]\nmin_size = " + size + "\nmax_size = " + size + "\npromote = false\n";
  }
  const Loaded loaded = LoadRules(text);
  ASSERT_TRUE(loaded.ok()) << loaded.problems[0].Format();
  EXPECT_EQ(PlanOf(loaded.policy.transfer, Direction::kHostToDevice, kMostRules, 0).rule,
            static_cast<std::int16_t>(kMostRules) - 1);
  const Loaded more = LoadRules(text + "[[transfer.rule]]\n[[transfer.rule]]\npromote = 3\n");
  ASSERT_EQ(more.problems.size(), 1U);
  EXPECT_EQ(more.problems[0].Format(), "p.toml:258:1: more than 64 rules");
}

TEST(Rules, HaveNoVariable) {
  const Loaded loaded =
      Load({.path = std::nullopt, .env = Environment(Variables{{"SLIPSTREAM_TRANSFER_RULE_PROMOTE", "true"}})});
  ASSERT_EQ(loaded.problems.size(), 1U);
  EXPECT_EQ(loaded.problems[0].Format(),
            "environment variable SLIPSTREAM_TRANSFER_RULE_PROMOTE: [[transfer.rule]] has no overrides: rules stand in "
            "the policy file");
}

// Every row reads and writes a field of its own.
TEST(Rules, EachRowHasItsField) {
  for (const RuleKey& key : RuleKeys()) {
    TransferRule rule;
    const Value before = key.get(rule);
    Value other = before;
    other.flag = !before.flag;
    other.number = 1;
    other.text += "x";
    key.set(rule, other);
    for (const RuleKey& another : RuleKeys()) {
      const bool changed = another.get(rule) != another.get(TransferRule());
      EXPECT_EQ(changed, &another == &key) << key.option.key << " against " << another.option.key;
    }
    EXPECT_EQ(FindRuleKey(key.option.key), &key);
    EXPECT_TRUE(key.option.doc.ends_with('.')) << key.option.key;
  }
}

// Few sizes and devices, so that every copy can be tried.
constexpr std::uint64_t kSizes = 8;
constexpr int kDevices = 3;  // no rule names the last

constexpr const char* kRuleSites[] = {"a.py", "a.py:1", "x/a.py", "x/a.py:1", "y/a.py:2"};
// Those that the rules can tell apart, and one that no rule names.
constexpr Site kPlaces[] = {{"/x/a.py", 1}, {"/x/a.py", 2}, {"/x/a.py", 3}, {"/y/a.py", 1}, {"/y/a.py", 2},
                            {"/y/a.py", 3}, {"/z/a.py", 1}, {"/z/a.py", 3}, {"/ba.py", 1}};

std::string RandomRule(std::mt19937& random) {
  const auto below = [&random](unsigned limit) { return static_cast<int>(random() % limit); };
  std::string text = "[[transfer.rule]]\n";
  if (below(2) == 0) text += below(2) == 0 ? "direction = \"h2d\"\n" : "direction = \"d2h\"\n";
  const int min = below(kSizes);
  if (below(3) != 0) text += "min_size = " + std::to_string(min) + "\n";
  if (below(3) != 0) text += "max_size = " + std::to_string(std::max(min + below(4), 1)) + "\n";
  if (below(2) == 0) text += "device = " + std::to_string(below(kDevices - 1)) + "\n";
  if (below(3) == 0) text += std::string("site = \"") + kRuleSites[below(std::size(kRuleSites))] + "\"\n";
  return text + "promote = false\n";
}

bool SomeCopyReaches(const Transfer& policy, std::size_t rule) {
  for (const Direction direction : {Direction::kHostToDevice, Direction::kDeviceToHost}) {
    for (std::uint64_t bytes = 1; bytes <= 2 * kSizes; ++bytes) {
      for (int device = 0; device < kDevices; ++device) {
        for (const Site& place : kPlaces) {
          const RulesAt rules = RulesAtSite(policy, &place);
          if (PlanOf(policy, direction, bytes, device, rules).rule == static_cast<std::int16_t>(rule)) return true;
        }
      }
    }
  }
  return false;
}

TEST(Rules, AreRefusedExactlyWhereNoCopyReachesThem) {
  std::mt19937 random(1);
  int refused = 0;
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    Transfer policy;
    std::vector<std::string> rules;
    for (std::size_t count = 2 + random() % 4; count > 0; --count) rules.push_back(RandomRule(random));
    std::vector<int> unreached;  // lines
    int line = 2;
    for (const std::string& rule : rules) {
      const Loaded alone = LoadRules(rule);
      ASSERT_TRUE(alone.ok()) << rule << alone.problems[0].Format();
      policy.rules.push_back(alone.policy.transfer.rules[0]);
      text += rule;
      if (!SomeCopyReaches(policy, policy.rules.size() - 1)) unreached.push_back(line);
      line += static_cast<int>(std::count(rule.begin(), rule.end(), '\n'));
    }
    const Loaded loaded = LoadRules(text);
    std::vector<int> reported;
    for (const Problem& problem : loaded.problems) {
      EXPECT_EQ(problem.what, "a rule that no copy can reach: those before it match all that it does");
      reported.push_back(problem.line);
    }
    ASSERT_EQ(reported, unreached) << text;
    ++(reported.empty() ? accepted : refused);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace slipstream::policy
