// Of two ways the faster one is found, kept, and looked at again when times change.

#include "transfer/path_chooser.h"

#include <gtest/gtest.h>

namespace slipstream::transfer {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

// Copies of which the ways take so long; how many of them went the second way.
int SecondWays(PathChooser& ways, int copies, uint64_t first_ns, uint64_t second_ns, size_t bytes = kBytes) {
  int second = 0;
  for (int i = 0; i < copies; ++i) {
    const size_t way = ways.Choose(bytes);
    ways.Took(way, bytes, way == 0 ? first_ns : second_ns);
    second += way == 1 ? 1 : 0;
  }
  return second;
}

TEST(PathChooser, BothAreTriedAndTheFasterOneIsTaken) {
  PathChooser ways;
  EXPECT_EQ(ways.Choose(kBytes), 0U);
  EXPECT_EQ(SecondWays(ways, 2 * PathChooser::kTrials, 100'000, 50'000), static_cast<int>(PathChooser::kTrials));
  EXPECT_GE(SecondWays(ways, 1000, 100'000, 50'000), 980);
  PathChooser other;
  EXPECT_EQ(SecondWays(other, 2 * PathChooser::kTrials, 50'000, 100'000), static_cast<int>(PathChooser::kTrials));
  EXPECT_LE(SecondWays(other, 1000, 50'000, 100'000), 20);
}

TEST(PathChooser, TryingTheSlowerOneCostsAboutAHundredth) {
  PathChooser ways;
  SecondWays(ways, 2 * PathChooser::kTrials, 10'000, 1'000'000);
  const int tried = SecondWays(ways, 100'000, 10'000, 1'000'000);
  EXPECT_GE(tried, 1);
  EXPECT_LE(tried * 990'000.0, 0.011 * 100'000 * 10'000.0);
}

TEST(PathChooser, NothingIsTriedOutWhereTheTimeTellsNothing) {
  PathChooser ways;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ways.Choose(kBytes, false), 0U);
  SecondWays(ways, 2 * PathChooser::kTrials, 100'000, 50'000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ways.Choose(kBytes, false), 1U);
}

TEST(PathChooser, ChangedTimesAreNoticed) {
  PathChooser ways;
  SecondWays(ways, 100, 50'000, 60'000);
  const int second = SecondWays(ways, 2000, 90'000, 60'000);
  EXPECT_GE(second, 1800);
}

TEST(PathChooser, SizesAreLearnedApart) {
  PathChooser ways;
  SecondWays(ways, 100, 50'000, 10'000);
  EXPECT_EQ(ways.Choose(kBytes), 1U);
  EXPECT_EQ(ways.Choose(16 * kBytes), 0U);
  SecondWays(ways, 100, 10'000, 50'000, 16 * kBytes);
  EXPECT_EQ(ways.Choose(16 * kBytes), 0U);
  EXPECT_EQ(ways.Choose(kBytes), 1U);
}

TEST(PathChooser, AnInterruptedCopyDoesNotTurnTheChoice) {
  PathChooser ways;
  SecondWays(ways, 100, 50'000, 60'000);
  ways.Took(0, kBytes, 500'000'000);
  EXPECT_LE(SecondWays(ways, 200, 50'000, 60'000), 60);
  EXPECT_LE(SecondWays(ways, 20, 50'000, 60'000), 1);
}

}  // namespace
}  // namespace slipstream::transfer
