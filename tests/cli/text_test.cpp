#include "tools/text/text.h"

#include <gtest/gtest.h>

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
}

}  // namespace
}  // namespace slipstream::text
