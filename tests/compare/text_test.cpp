// What is said: above all, that nothing is claimed which was not seen.

#include "tools/compare/text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace slipstream::compare {
namespace {

Comparison Of(const std::vector<std::array<double, 2>>& seconds) {
  Comparison comparison;
  comparison.command = "python train.py";
  comparison.sides[0] = {.name = "bare", .detail = "the command itself"};
  comparison.sides[1] = {.name = "slipstream", .detail = "policy: defaults", .policy = "defaults"};
  comparison.asked_pairs = seconds.size();
  comparison.warm_ups = 1;
  for (const auto& pair : seconds) {
    PairOfRuns runs;
    runs.first = comparison.pairs.size() % 2;
    for (size_t side = 0; side < 2; ++side) runs.runs[side] = {{pair[side], 0}, pair[side]};
    comparison.pairs.push_back(runs);
  }
  comparison.runs = {seconds.size() + 1, seconds.size() + 1};
  MakeEstimate(&comparison);
  return comparison;
}

bool Has(const Comparison& comparison, const std::string& text) {
  std::string words = FormatComparison(comparison);
  for (size_t at = 0; (at = words.find("\n    ", at)) != std::string::npos;) words.replace(at, 5, " ");
  return words.find(text) != std::string::npos;
}

TEST(CompareTextTest, Faster) {
  const Comparison comparison = Of({{12.31, 9.42}, {12.28, 9.40}, {12.30, 9.41}, {12.29, 9.41}});
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kCompared);
  EXPECT_TRUE(Has(comparison, "FASTER: slipstream has 1.307 times the speed of bare (99 % interval 1.305 to 1.308)"))
      << FormatComparison(comparison);
  const std::string text = FormatComparison(comparison);
  EXPECT_NE(text.find("\n     1  bare             12.31 s       9.420 s         1.307\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n     2  slipstream       12.28 s       9.400 s         1.306\n"), std::string::npos) << text;
  EXPECT_TRUE(Has(comparison, "wall time of the whole command"));
  EXPECT_FALSE(Has(comparison, "For an interval of"));
  EXPECT_FALSE(Has(comparison, "NO DIFFERENCE"));
}

TEST(CompareTextTest, Slower) {
  EXPECT_TRUE(Has(Of({{10, 11}, {10, 11.01}, {10, 10.99}}), "SLOWER: slipstream has 0.909 times the speed of bare"));
}

TEST(CompareTextTest, NoDifference) {
  const Comparison comparison = Of({{10, 10.3}, {10, 9.8}, {10, 10.1}});
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kCompared);
  EXPECT_TRUE(Has(comparison, "NO DIFFERENCE FOUND: slipstream has 0.9"));
  EXPECT_TRUE(Has(comparison, "Had there been one of 17.")) << FormatComparison(comparison);
  EXPECT_TRUE(Has(comparison, "To see one of 3 %: about ")) << FormatComparison(comparison);
  EXPECT_TRUE(Has(comparison, " more pairs (-n ")) << FormatComparison(comparison);
  EXPECT_FALSE(Has(comparison, "For an interval of"));
  EXPECT_FALSE(Has(comparison, "FASTER"));
  EXPECT_FALSE(Has(comparison, "SLOWER"));
}

TEST(CompareTextTest, AgainstALimit) {
  Comparison comparison = Of({{10, 10.5}, {10, 10.52}, {10, 10.48}});
  EXPECT_FALSE(Has(comparison, "lower by more than"));
  comparison.fail_if_slower = 0.03;
  EXPECT_TRUE(Has(comparison, "SLOWER BY MORE THAN 3 %: the whole interval lies beyond."));
  comparison.fail_if_slower = 0.075;
  EXPECT_TRUE(Has(comparison, "Not slower by more than 7.5 %: the whole interval lies within."));
  comparison = Of({{10, 10.3}, {10, 9.8}, {10, 10.1}});
  comparison.fail_if_slower = 0.03;
  EXPECT_TRUE(Has(comparison, "Whether slipstream is slower by more than 3 % cannot be told; about "))
      << FormatComparison(comparison);
  EXPECT_TRUE(Has(comparison, "would tell, if they go on as these.")) << FormatComparison(comparison);
  comparison = Of({{10, 11}, {11, 10}, {10, 10.64}});
  comparison.fail_if_slower = 0.02;
  EXPECT_TRUE(Has(comparison, "more than 2 % cannot be told, nor by any number of pairs up to 1,000"))
      << FormatComparison(comparison);
}

TEST(CompareTextTest, AnEndBesideOneIsNotPrintedAsOne) {
  const Comparison comparison = Of({{10.0003, 10}, {10.0004, 10}, {10.0003, 10}, {10.0004, 10}});
  // 3.5e-5 and 5.8409 * 5.8e-6 / 2 around it.
  EXPECT_TRUE(Has(comparison, "interval 1.00002 to 1.00005)")) << FormatComparison(comparison);
}

TEST(CompareTextTest, TwoPairsSayNothing) {
  const Comparison comparison = Of({{10, 1}, {10, 1}});
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kTooFew);
  EXPECT_TRUE(Has(comparison, "NOTHING CAN BE SAID: 2 pairs, and fewer than 3 make no interval; ratio so far 10.000"));
  EXPECT_FALSE(Has(comparison, "FASTER"));
  EXPECT_TRUE(Has(Of({}), "NOTHING CAN BE SAID: 0 pairs"));
}

TEST(CompareTextTest, AFailureOnOneSideIsNoStatistic) {
  Comparison comparison = Of({{10, 5}, {10, 5}, {10, 5}});
  comparison.failures.push_back({1, 4, "killed by SIGSEGV (Segmentation fault)", {"the last \x1b[31mline"}});
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kFailsOnOne);
  EXPECT_TRUE(Has(comparison, "FAILS ON ONE SIDE ONLY: slipstream failed in 1 of 4 runs, bare in 0 of 4."))
      << FormatComparison(comparison);
  EXPECT_TRUE(Has(comparison, "slipstream, pair 4: killed by SIGSEGV (Segmentation fault)"));
  EXPECT_TRUE(Has(comparison, "| the last \\u001b[31mline"));
  EXPECT_FALSE(Has(comparison, "FASTER"));
  comparison.failures.push_back({0, 4, "exit status 1", {}});
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kFailsOnBoth);
  EXPECT_TRUE(Has(comparison, "FAILS ON BOTH SIDES"));
}

TEST(CompareTextTest, ResultsThatDifferOutrankTheRatio) {
  Comparison comparison = Of({{10, 5}, {10, 5}, {10, 5}});
  comparison.results.runs = {4, 4};
  comparison.results.repeating = comparison.results.numbers = 3;
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kCompared);
  EXPECT_TRUE(
      Has(comparison,
          "Same results: all 3 numbers in the output are the same in all 4 runs of bare, and slipstream prints them"));
  comparison.results.numbers = 9;
  EXPECT_TRUE(Has(comparison, "Same results, as far as they repeat: 3 of 9 numbers in the output are the same"));
  comparison.results.differences = 1;
  comparison.results.shown.push_back({.line = 7, .first = "loss 1", .second = "loss 2", .runs = 4});
  EXPECT_EQ(OutcomeOf(comparison), Outcome::kResultsDiffer);
  EXPECT_TRUE(Has(comparison, "RESULTS DIFFER: 1 line"));
  EXPECT_TRUE(Has(comparison, "line 7, in 4 of 4 runs of slipstream:"));
  EXPECT_FALSE(Has(comparison, "Same results"));
}

TEST(CompareTextTest, WhereSlipstreamHadNothingToDo) {
  Comparison comparison = Of({{10, 5}, {10, 5}, {10, 5}});
  comparison.sides[1].counted = true;
  EXPECT_TRUE(Has(comparison, "NO CUDA CALL WAS SEEN under slipstream"));
  comparison.sides[1].calls = 1234;
  comparison.sides[1].processes = 1;
  EXPECT_TRUE(Has(comparison, "slipstream saw 1,234 CUDA calls in a run, in 1 process."));
}

TEST(CompareTextTest, StoppedEarly) {
  Comparison comparison = Of({{10, 5}, {10, 5}, {10, 5}});
  comparison.asked_pairs = 6;
  comparison.stopped = "it was interrupted.";
  EXPECT_TRUE(Has(comparison, "STOPPED EARLY: it was interrupted."));
  EXPECT_TRUE(Has(comparison, "3 pairs of 6"));
  EXPECT_TRUE(Has(comparison, "FASTER"));
}

TEST(CompareTextTest, LinesFitATerminal) {
  Comparison comparison = Of({{10, 9}, {10, 10}, {10, 11}, {10, 9}, {10, 10}, {10, 30}});
  comparison.metric = "([0-9.]+) samples/s of a very long pattern, (?:with all that belongs to it)+";
  comparison.ruler = Ruler::kMetric;
  comparison.notes = {std::string("a note of many words that goes on and on, so that it has to be broken somewhere")};
  comparison.results.runs = {7, 7};
  comparison.results.differences = 1;
  comparison.results.shown.push_back({.first = std::string(300, 'x'), .second = std::string(300, 'y'), .runs = 1});
  std::istringstream lines(FormatComparison(comparison));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(CompareTextTest, Seconds) {
  EXPECT_EQ(FormatSeconds(123.456), "123.5 s");
  EXPECT_EQ(FormatSeconds(12.3456), "12.35 s");
  EXPECT_EQ(FormatSeconds(1), "1.000 s");
  EXPECT_EQ(FormatSeconds(0.99999), "1.000 s");
  EXPECT_EQ(FormatSeconds(0.0083744), "8.374 ms");
  EXPECT_EQ(FormatSeconds(0.0000012), "1.200 us");
  EXPECT_EQ(FormatSeconds(4000), "4000 s");
}

TEST(CompareTextTest, Json) {
  const auto json = nlohmann::json::parse(ComparisonJson(Of({{10, 5}, {12, 6}, {8, 4}}), 0));
  EXPECT_EQ(json["schema"], "slipstream-compare-1");
  EXPECT_EQ(json["outcome"], "compared");
  EXPECT_EQ(json["measured"], "wall");
  EXPECT_NEAR(json["speed_ratio"]["value"], 2, 1e-12);
  EXPECT_EQ(json["speed_ratio"]["different"], true);
  EXPECT_EQ(json["sides"][0]["figures"], nlohmann::json({10.0, 12.0, 8.0}));
  EXPECT_EQ(json["pairs"][1]["first"], "slipstream");
  EXPECT_EQ(json["seed"], 0);
  const auto few = nlohmann::json::parse(ComparisonJson(Of({{10, 5}}), 3));
  EXPECT_EQ(few["outcome"], "too_few_pairs");
  EXPECT_TRUE(few["speed_ratio"]["low"].is_null());
  EXPECT_TRUE(few["speed_ratio"]["different"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(ComparisonJson(Of({}), 3))["speed_ratio"].is_null());
}

}  // namespace
}  // namespace slipstream::compare
