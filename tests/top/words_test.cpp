// Figures and names that fit their places.

#include "tools/trace/top/words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/top/top_testing.h"

namespace slipstream::top {
namespace {

TEST(TopWordsTest, ACommandIsWhatPythonRuns) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, ""},
      {{"/usr/bin/env"}, "env"},
      {{"./solver", "/data/in.txt"}, "solver /data/in.txt"},
      {{"/usr/bin/python3.12", "/srv/me/train.py", "--lr", "0.1"}, "train.py --lr 0.1"},
      {{"python", "-u", "-X", "dev", "train.py"}, "train.py"},
      {{"python3", "-m", "torch.distributed.run", "--nproc", "2"}, "torch.distributed.run --nproc 2"},
      {{"python3", "-Wignore", "-m", "pkg"}, "pkg"},
      {{"python3", "-c", "import this"}, "python3 -c import this"},
      {{"python3", "-m"}, "python3 -m"},
      {{"python3", "-X"}, "python3 -X"},
      {{"python3", ""}, "python3 "},
      {{"python3"}, "python3"},
  };
  for (const auto& [words, label] : cases) EXPECT_EQ(CommandLabel(words), label);
}

// Japanese characters take two columns, an umlaut one.
TEST(TopWordsTest, ColumnsOfWideCharacters) {
  EXPECT_EQ(Columns("abc"), 3U);
  EXPECT_EQ(Columns("\xc3\xa4"), 1U);
  EXPECT_EQ(Columns("\xe8\xa8\x93\xe7\xb7\xb4"), 4U);
  EXPECT_EQ(Columns("\xf0\x9f\x9a\x80"), 2U);
  EXPECT_EQ(Columns("\xe2\x96\x85"), 1U);
  EXPECT_EQ(CutTo("\xe8\xa8\x93\xe7\xb7\xb4\xe8\xa8\x93", 6), "\xe8\xa8\x93\xe7\xb7\xb4\xe8\xa8\x93");
  EXPECT_EQ(CutTo("\xe8\xa8\x93\xe7\xb7\xb4\xe8\xa8\x93", 5), "\xe8\xa8\x93...");
  EXPECT_EQ(CutTo("\xe8\xa8\x93\xe7\xb7\xb4", 3), "\xe8\xa8\x93");
  EXPECT_EQ(CutTo("abcdef", 5), "ab...");
}

TEST(TopWordsTest, TimesAndSizesInFewColumns) {
  EXPECT_EQ(ShortDuration(59 * kSecond), "59s");
  EXPECT_EQ(ShortDuration(60 * kSecond), "1m00s");
  EXPECT_EQ(ShortDuration(3599 * kSecond), "59m59s");
  EXPECT_EQ(ShortDuration((2 * 3600 + 5 * 60) * kSecond), "2h05m");
  EXPECT_EQ(ShortDuration((3 * 86400 + 2 * 3600) * kSecond), "3d02h");
  EXPECT_EQ(ShortBytes(0), "0B");
  EXPECT_EQ(ShortBytes(uint64_t{512} << 20), "512M");
  EXPECT_EQ(ShortBytes(uint64_t{3} << 30), "3.00G");
}

// A level is a seventh of the median: half of it is the lowest, one and a half times it the highest.
TEST(TopWordsTest, TheTrendIsAroundTheMedian) {
  EXPECT_EQ(Trend({}, true), "");
  EXPECT_EQ(Trend({100, 10, 1000, 70, 130, 100, 100}, false), "=_#.*==");
  EXPECT_EQ(Trend({100, 100, 10}, true), "\u2585\u2585\u2581");
  EXPECT_EQ(Trend({0, 0}, false), "__");
}

}  // namespace
}  // namespace slipstream::top
