#include "tools/text/text.h"

#include <gtest/gtest.h>

#include "tools/text/columns.h"

namespace slipstream::text {
namespace {

TEST(TextTest, Thousands) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(1234567), "1,234,567");
  EXPECT_EQ(WithThousands(~uint64_t{0}), "18,446,744,073,709,551,615");
}

TEST(TextTest, PythonLinesAsASentence) {
  EXPECT_EQ(PythonLinesText("read: CPython 3.15.0"), "read, from CPython 3.15.0");
  EXPECT_EQ(PythonLinesText("unsupported: this is a debug build of CPython 3.12.1"),
            "none, this is a debug build of CPython 3.12.1 (not supported)");
  EXPECT_EQ(PythonLinesText("none: there is no CPython in this process"), "none, there is no CPython in this process");
  EXPECT_EQ(PythonLinesText("what a later slipstream says"), "what a later slipstream says");
}

TEST(TextTest, ThreeDigitsAndTheRightUnit) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.00 KiB");
  EXPECT_EQ(HumanBytes(1536), "1.50 KiB");
  EXPECT_EQ(HumanBytes((uint64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(HumanBytes(uint64_t{150} << 30), "150 GiB");
  EXPECT_EQ(HumanTime(0), "0 ns");
  EXPECT_EQ(HumanTime(999), "999 ns");
  EXPECT_EQ(HumanTime(1234), "1.23 us");
  EXPECT_EQ(HumanTime(999'999), "1.00 ms");
  EXPECT_EQ(HumanTime(45'600'000), "45.6 ms");
  EXPECT_EQ(HumanTime(7'890'000'000), "7.89 s");
  EXPECT_EQ(HumanTime(7'890'000'000'000), "7890 s");
}

TEST(TextTest, Padding) {
  EXPECT_EQ(PadLeft("ab", 4), "  ab");
  EXPECT_EQ(PadRight("ab", 4), "ab  ");
  EXPECT_EQ(PadLeft("abcdef", 4), "abcdef");
  EXPECT_EQ(PadRight("abcdef", 4), "abcdef");
  EXPECT_EQ(PadLeft("\xc3\xa4", 3), "  \xc3\xa4");
  EXPECT_EQ(PadRight("\xc3\xa4", 3), "\xc3\xa4  ");
}

TEST(ColumnsTest, HowWideATextMayBe) {
  EXPECT_EQ(ColumnsFor(nullptr, 0), 80U);
  EXPECT_EQ(ColumnsFor(nullptr, 132), 132U);
  EXPECT_EQ(ColumnsFor(nullptr, 40), 80U);
  EXPECT_EQ(ColumnsFor(nullptr, 400), 160U);
  EXPECT_EQ(ColumnsFor("100", 132), 100U);
  EXPECT_EQ(ColumnsFor("100", 0), 100U);
  for (const char* const none : {"", "wide", "-1", "100x"}) EXPECT_EQ(ColumnsFor(none, 132), 132U) << none;
}

TEST(ColumnsTest, ACharacterIsAColumn) {
  EXPECT_EQ(Columns(""), 0U);
  EXPECT_EQ(Columns("a\xc3\xa4\xe2\x82\xac"), 3U);
  EXPECT_EQ(Columns("a\xff"), 2U) << "what is no character";
}

TEST(ColumnsTest, WhatIsCutSaysSo) {
  EXPECT_EQ(Cut("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(Cut("abcdefghi", 8), "abcde...");
  EXPECT_EQ(CutFront("abcdefghi", 8), "...efghi");
  EXPECT_EQ(CutMiddle("abcdefghi", 8), "ab...ghi");
  EXPECT_EQ(CutMiddle("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(CutFront("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xe2\x82\xac", 4), "...\xe2\x82\xac");
  EXPECT_EQ(CutMiddle("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xe2\x82\xac\xc3\xa4", 5), "\xc3\xa4...\xc3\xa4");
}

TEST(ColumnsTest, LinesBreakAtSpaces) {
  EXPECT_EQ(Wrapped("one two three", 20, 2, 4), "  one two three\n");
  EXPECT_EQ(Wrapped("one two three four five", 20, 2, 4), "  one two three four\n    five\n");
  EXPECT_EQ(Wrapped("  one two three four five", 20, 0, 6), "  one two three four\n      five\n");
  EXPECT_EQ(Wrapped("", 20, 2, 4), "  \n");
  EXPECT_EQ(WrappedAtSpaces("  one  two three four five\n\nsix", 20, 4), "  one  two three\n    four five\n\nsix\n");
  EXPECT_EQ(WrappedAtSpaces("see /a/path/that/is/longer/than/that now\n", 20, 2),
            "see\n  /a/path/that/is/longer/than/that\n  now\n");
  EXPECT_EQ(WrappedAtSpaces("", 20, 2), "");
  EXPECT_EQ(Wrapped("abcdefghijklmnopqrstuvwxyz", 20, 2, 10), "  abcdefghijklmnopqr\n          stuvwxyz\n");
  EXPECT_EQ(Wrapped("it took about 12.5 ms in all", 20, 0, 2), "it took about\n  12.5 ms in all\n");
  EXPECT_EQ(Wrapped("\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4\xc3\xa4 bb", 10, 0, 0),
            "\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4\xc3\xa4 bb\n");
}

}  // namespace
}  // namespace slipstream::text
