#include "tools/compare/output_match.h"

#include <gtest/gtest.h>

namespace slipstream::compare {
namespace {

using Outputs = std::vector<std::string>;

MatchResult Match(const Outputs& firsts, const Outputs& seconds, const Pattern* result = nullptr,
                  const Pattern* metric = nullptr) {
  OutputMatch match(result, metric);
  for (const std::string& output : firsts) match.Add(0, output, "");
  for (const std::string& output : seconds) match.Add(1, output, "");
  return match.Result();
}

TEST(OutputMatchTest, TheSame) {
  const MatchResult result = Match({"loss 1.25\n3 ms\n", "loss 1.25\n4 ms\n"}, {"loss 1.25\n9 ms\n"});
  EXPECT_TRUE(result.can_be_told());
  EXPECT_EQ(result.numbers, 1U);
  EXPECT_EQ(result.repeating, 1U);
  EXPECT_EQ(result.words, 1U);
  EXPECT_EQ(result.differences, 0U);
  EXPECT_EQ(result.example, "loss 1.25");
}

TEST(OutputMatchTest, AnotherNumber) {
  const MatchResult result = Match({"a\nloss 1.25\n", "a\nloss 1.25\n"}, {"a\nloss 1.25\n", "a\nloss 1.26\n"});
  ASSERT_EQ(result.differences, 1U);
  EXPECT_EQ(result.shown[0].line, 2U);
  EXPECT_EQ(result.shown[0].first, "loss 1.25");
  EXPECT_EQ(result.shown[0].second, "loss 1.26");
  EXPECT_EQ(result.shown[0].runs, 1U);
  EXPECT_FALSE(result.shown[0].standard_error);
}

TEST(OutputMatchTest, OneNumberOfALineRepeatsAndAnotherDoesNot) {
  const Outputs bare = {"step 10 loss 1.25 seed 7\n", "step 10 loss 1.25 seed 8\n"};
  const MatchResult same = Match(bare, {"step 10 loss 1.25 seed 9\n"});
  EXPECT_EQ(same.differences, 0U);
  EXPECT_EQ(same.numbers, 3U);
  EXPECT_EQ(same.repeating, 2U);
  EXPECT_EQ(same.example, "step 10 loss 1.25 seed 7");
  EXPECT_EQ(same.varying, same.example);
  EXPECT_EQ(Match(bare, {"step 10 loss 1.5 seed 7\n"}).differences, 1U);
}

TEST(OutputMatchTest, WhatVariesWithinASideSaysNothing) {
  const MatchResult result = Match({"loss 1.25\n", "loss 1.26\n"}, {"loss 9\n"});
  EXPECT_EQ(result.differences, 0U);
  EXPECT_FALSE(result.can_be_told());
  EXPECT_EQ(result.numbers, 1U);
  EXPECT_EQ(result.repeating, 0U);
}

TEST(OutputMatchTest, OneRunShowsNothingThatRepeats) {
  EXPECT_FALSE(Match({"loss 1.25\n"}, {"loss 1.26\n"}).can_be_told());
  EXPECT_EQ(Match({"loss 1.25\n"}, {"loss 1.26\n"}).differences, 0U);
  EXPECT_FALSE(Match({"loss 1.25\n", "loss 1.25\n"}, {}).can_be_told());
}

TEST(OutputMatchTest, TimesAreNoResults) {
  EXPECT_EQ(Match({"took 3.1 s\n", "took 3.1 s\n"}, {"took 2.0 s\n"}).differences, 0U);
  EXPECT_FALSE(Match({"took 3.1 s\n", "took 3.1 s\n"}, {"took 2.0 s\n"}).can_be_told());
}

TEST(OutputMatchTest, ALineThatIsMissing) {
  const MatchResult result = Match({"loss 1\nPASSED\n", "loss 1\nPASSED\n"}, {"loss 1\nFAILED\n"});
  ASSERT_EQ(result.differences, 1U);
  EXPECT_EQ(result.shown[0].first, "PASSED");
  EXPECT_EQ(result.shown[0].second, "");
  EXPECT_EQ(Match({"loss 1\n", "loss 1\n"}, {"loss nan\n"}).shown[0].second, "loss nan");
}

TEST(OutputMatchTest, ALineMoreElsewhereDoesNoHarm) {
  EXPECT_EQ(Match({"loss 1\nloss 2\n", "loss 1\nloss 2\n"}, {"hello\nloss 1\nwarning 3\nloss 2\n"}).differences, 0U);
}

TEST(OutputMatchTest, LinesThatComeAsOftenAsThereIsTime) {
  const Outputs bare = {"alive\nalive\nloss 1\n", "alive\nalive\nalive\nloss 1\n"};
  EXPECT_EQ(Match(bare, {"alive\nloss 1\n"}).differences, 0U);
}

TEST(OutputMatchTest, OnStandardErrorNumbersCountAndWordsDoNot) {
  OutputMatch match(nullptr, nullptr);
  for (int i = 0; i < 2; ++i) match.Add(0, "", "INFO step 1 loss 2.5\nUserWarning: so what\n");
  match.Add(1, "", "slipstream: something\n2026-11-23T12:00:00.000Z slipstream[7] warn: 8\nINFO step 1 loss 2.75\n");
  const MatchResult result = match.Result();
  ASSERT_EQ(result.differences, 1U);
  EXPECT_TRUE(result.shown[0].standard_error);
  EXPECT_EQ(result.shown[0].second, "INFO step 1 loss 2.75");
  EXPECT_EQ(result.words, 0U);
}

TEST(OutputMatchTest, ANamedResultIsTheOnlyOne) {
  const Pattern result("final (.*)", 0, 1);
  const Outputs bare = {"loss 1\nfinal 5 ms\n", "loss 2\nfinal 5 ms\n"};
  EXPECT_EQ(Match(bare, {"loss 3\nfinal 5 ms\n"}, &result).differences, 0U);
  const MatchResult different = Match(bare, {"loss 1\nfinal 6 ms\n"}, &result);
  ASSERT_EQ(different.differences, 1U);
  EXPECT_EQ(different.shown[0].first, "5 ms");
  EXPECT_EQ(different.shown[0].second, "6 ms");
  EXPECT_TRUE(different.by_pattern);
  EXPECT_EQ(Match(bare, {"loss 1\n"}, &result).shown[0].second, "");
  EXPECT_EQ(Match({"a\n", "a\n"}, {"a\n"}, &result).numbers, 0U);
}

TEST(OutputMatchTest, TheMetricIsNoResult) {
  const Pattern metric("speed ([0-9]+)x", 1, 1);
  EXPECT_EQ(Match({"x 1 speeds\nspeed 10x\n", "x 1 speeds\nspeed 10x\n"}, {"x 1 speeds\nspeed 20x\n"}, nullptr, &metric)
                .differences,
            0U);
}

TEST(OutputMatchTest, StrangeBytes) {
  const std::string strange = std::string("a\0b 1 \xff\0 2\n", 11);
  EXPECT_EQ(Match({strange, strange}, {strange}).differences, 0U);
}

// Where it is cut depends on how many digits the times have that stand before.
TEST(OutputMatchTest, WhatIsCutOffIsNoDifference) {
  std::string lines;
  while (lines.size() <= kMostOutput + 100) lines += "loss 123456789.5\n";
  const MatchResult result =
      Match({"took 1 s\n" + lines, "took 2 s\n" + lines}, {"took 10000000000000000 s\n" + lines});
  EXPECT_TRUE(result.cut);
  EXPECT_EQ(result.differences, 0U) << result.shown[0].first << "\n" << result.shown[0].second;
  EXPECT_FALSE(Match({"loss 1\n", "loss 1\n"}, {"loss 1\n"}).cut);
}

TEST(OutputMatchTest, OnlySomeAreShown) {
  std::string bare;
  std::string other;
  for (char c = 'a'; c < 'a' + 20; ++c) {
    bare += std::string(2, c) + " 1\n";
    other += std::string(2, c) + " 2\n";
  }
  const MatchResult result = Match({bare, bare}, {other});
  EXPECT_EQ(result.differences, 20U);
  ASSERT_EQ(result.shown.size(), kMostDifferences);
  EXPECT_EQ(result.shown[0].line, 1U);
}

}  // namespace
}  // namespace slipstream::compare
