// The file that a search leaves: what was kept with its worth, and all that the policy before it had.

#include "tools/tune/policy_file.h"

#include <gtest/gtest.h>

#include "policy/load.h"

namespace slipstream::tune {
namespace {

const policy::Environment kEmpty{std::map<std::string, std::string>{}};

// Of runs of so many seconds by what differs.
template <typename Program>
Search Searched(const std::vector<Knob>& knobs, const Program& seconds) {
  Search search(knobs, {});
  double drift = 0;
  while (search.next()) {
    drift += 1e-4;
    search.Add({compare::Figure{seconds(search.next()->incumbent) + drift, 0},
                compare::Figure{seconds(search.next()->challenger), 0}});
  }
  return search;
}

TEST(PolicyFileTest, WhatWasKeptStandsThereWithItsWorth) {
  const Search search = Searched(
      {{"transfer.threads", {"4"}}, {"transfer.d2h", {"\"off\""}}, {"environment.NVIDIA_TF32_OVERRIDE", {"\"1\""}}},
      [](const Settings& settings) {
        double seconds = 10;
        if (settings.contains("transfer.threads")) seconds -= 1;
        if (settings.contains("transfer.d2h")) seconds += 2;
        if (settings.contains("environment.NVIDIA_TF32_OVERRIDE")) seconds -= 2;
        return seconds;
      });
  const policy::Loaded base = policy::LoadText("version = 1\n", "base.toml", kEmpty);
  const std::string text = PolicyFileText(
      search, base, {{"allocator.decay", "the program allocates no memory of a device"}},
      {.program = "python train.py\nversion = 9", .when = "2026-01-01", .where = "node", .ruler = "wall time"});
  const policy::Loaded loaded = policy::LoadText(text, "tuned.toml", kEmpty);
  ASSERT_TRUE(loaded.ok()) << text << loaded.problems[0].what;
  EXPECT_EQ(loaded.policy.transfer.threads, 4);
  EXPECT_EQ(loaded.policy.transfer.d2h, policy::TransferMode::kOn);
  EXPECT_EQ(loaded.policy.environment.at("NVIDIA_TF32_OVERRIDE"), "1");
  EXPECT_NE(text.find("# 1.143 times as fast (95 %: "), std::string::npos) << text;
  EXPECT_NE(text.find(" as without it\nthreads = 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# It may change what the program computes.\nNVIDIA_TF32_OVERRIDE"), std::string::npos) << text;
  EXPECT_NE(text.find("#   transfer.d2h = \"off\": slower, 0.8"), std::string::npos) << text;
  EXPECT_NE(text.find("#   allocator.decay: the program allocates no"), std::string::npos) << text;
  EXPECT_NE(text.find("# In all 1.4"), std::string::npos) << text;
}

TEST(PolicyFileTest, WhatThePolicyBeforeHadStaysThere) {
  const policy::Loaded base = policy::LoadText(
      "version = 1\n[allocator]\nmode = \"off\"\n[transfer]\nthreads = 2\nmax_pinned = \"64MiB\"\n[environment]\nA = "
      "\"x\\\\y\\\"z\\u0001\"\n[[transfer.rule]]\nname = \"large\"\nmin_size = \"1MiB\"\npromote = false\n",
      "base.toml", kEmpty);
  ASSERT_TRUE(base.ok()) << base.problems[0].what;
  const Search search =
      Searched({{"transfer.threads", {"4"}}}, [](const Settings& settings) { return settings.empty() ? 10.0 : 9.0; });
  const std::string text = PolicyFileText(search, base, {}, {.program = "x"});
  const policy::Loaded loaded = policy::LoadText(text, "tuned.toml", kEmpty);
  ASSERT_TRUE(loaded.ok()) << text << loaded.problems[0].what;
  policy::Policy wanted = base.policy;
  wanted.transfer.threads = 4;
  EXPECT_EQ(loaded.policy, wanted) << text;
  EXPECT_NE(text.find("# as in base.toml:3\nmode = \"off\"\n"), std::string::npos) << text;
}

TEST(PolicyFileTest, WhereNothingIsWon) {
  const Search search = Searched({{"transfer.threads", {"4"}}}, [](const Settings&) { return 10.0; });
  const policy::Loaded base = policy::LoadText("version = 1\n", "base.toml", kEmpty);
  const std::string text = PolicyFileText(search, base, {}, {.program = "x"});
  const policy::Loaded loaded = policy::LoadText(text, "tuned.toml", kEmpty);
  ASSERT_TRUE(loaded.ok()) << text;
  EXPECT_EQ(loaded.policy, base.policy);
  EXPECT_NE(text.find("Nothing that was tried is faster"), std::string::npos) << text;
  EXPECT_NE(text.find("no difference that could be seen"), std::string::npos) << text;
}

}  // namespace
}  // namespace slipstream::tune
