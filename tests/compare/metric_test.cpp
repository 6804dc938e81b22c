#include "tools/compare/metric.h"

#include <gtest/gtest.h>

namespace slipstream::compare {
namespace {

MetricFigure Read(const std::string& pattern, const std::string& output, Pick pick = Pick::kLast) {
  return ReadMetric(Pattern(pattern, 1, 1), pick, output);
}

TEST(MetricTest, TheLastTheMedianTheMean) {
  const std::string output = "10 it/s\n20.5 it/s\nsomething\n60 it/s 40 it/s\n";
  const std::string pattern = "([0-9.]+) it/s";
  EXPECT_EQ(Read(pattern, output).matches, 4U);
  EXPECT_EQ(Read(pattern, output).figure.value, 40);
  EXPECT_EQ(Read(pattern, output).figure.rounding, 0.5);
  EXPECT_EQ(Read(pattern, output, Pick::kMedian).figure.value, 30.25);
  EXPECT_EQ(Read(pattern, output, Pick::kMedian).figure.rounding, 0.5) << "that of the roughest";
  EXPECT_EQ(Read(pattern, output, Pick::kMean).figure.value, 32.625);
}

TEST(MetricTest, HowNumbersAreWritten) {
  EXPECT_EQ(Read("n=(\\S+)", "n=1,234,567.5").figure.value, 1234567.5);
  EXPECT_EQ(Read("n=(\\S+)", "n=1,234,567.5").figure.rounding, 0.05);
  EXPECT_DOUBLE_EQ(Read("n=(\\S+)", "n=1.50e-03").figure.value, 0.0015);
  EXPECT_DOUBLE_EQ(Read("n=(\\S+)", "n=1.50e-03").figure.rounding, 0.000005);
  EXPECT_DOUBLE_EQ(Read("n=(\\S+)", "n=+2e+3").figure.rounding, 500);
}

TEST(MetricTest, WhatIsNoFigure) {
  EXPECT_NE(Read("n=(\\S+)", "m=1").problem, "");
  EXPECT_NE(Read("n=(\\S+)", "").problem, "");
  for (const char* const output : {"n=abc", "n=12x", "n=nan", "n=inf", "n=0", "n=-3"}) {
    EXPECT_NE(Read("n=(\\S+)", output).problem.find(output + 2), std::string::npos) << output;
  }
  EXPECT_NE(Read("n=(\\S+)", "n=bad\nn=3").problem, "") << "one that cannot be read is not passed over";
}

TEST(MetricTest, Patterns) {
  EXPECT_EQ(Pattern("(a)", 1, 1).error(), "");
  EXPECT_NE(Pattern("a", 1, 1).error(), "");
  EXPECT_NE(Pattern("(a)(b)", 1, 1).error(), "");
  EXPECT_NE(Pattern("(a", 1, 1).error(), "");
  EXPECT_EQ(Pattern("a", 0, 1).error(), "");
  EXPECT_EQ(Pattern("(?:a|b)(c)", 1, 1).error(), "");
}

TEST(MetricTest, LinesAsATerminalLeavesThem) {
  EXPECT_EQ(LinesOf("a\nb\r\n1 %\r50 %\r100 %\nc"), (std::vector<std::string_view>{"a", "b", "100 %", "c"}));
  EXPECT_TRUE(LinesOf("").empty());
}

TEST(MetricTest, LinesThatAreTooLongAreNotSearched) {
  const std::string line = std::string(kLongestLine, 'x') + " 5 it/s";
  EXPECT_NE(Read("([0-9]+) it/s", line).problem, "");
  EXPECT_EQ(Read("([0-9]+) it/s", line + "\n6 it/s").figure.value, 6);
}

TEST(MetricTest, TheOutputWithoutIt) {
  const Pattern pattern("([0-9.]+) it/s", 1, 1);
  EXPECT_EQ(pattern.Without("loss 1.5, 20 it/s, 30 it/s\nb", "~"), "loss 1.5, ~ it/s, ~ it/s\nb\n");
}

}  // namespace
}  // namespace slipstream::compare
