#include "policy/value.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace slipstream::policy {
namespace {

TEST(Value, SizesAreReadExactly) {
  struct SizeCase {
    std::string text;
    std::int64_t bytes;
  };
  const SizeCase cases[] = {{"0", 0},
                            {"65536", 65536},
                            {"7B", 7},
                            {"64KiB", 65536},
                            {"64 KiB", 65536},
                            {"512MiB", 536870912},
                            {"1GiB", 1073741824},
                            {"1kB", 1000},
                            {"2MB", 2000000},
                            {"1.5GB", 1500000000},
                            {"0.5KiB", 512},
                            {"1.250000000000kB", 1250},
                            {"9223372036854775807", std::numeric_limits<std::int64_t>::max()}};
  for (const SizeCase& c : cases) {
    const Size size = ParseSize(c.text);
    EXPECT_EQ(size.error, SizeError::kNone) << c.text;
    EXPECT_EQ(size.bytes, c.bytes) << c.text;
  }
}

TEST(Value, WhatIsNoSizeIsRefusedWithTheReason) {
  struct RefusedCase {
    std::string text;
    SizeError error;
  };
  const RefusedCase cases[] = {{"", SizeError::kSyntax},
                               {"-1", SizeError::kSyntax},
                               {"+1", SizeError::kSyntax},
                               {"MiB", SizeError::kSyntax},
                               {"1 ", SizeError::kSyntax},
                               {" 1", SizeError::kSyntax},
                               {"1  KiB", SizeError::kSyntax},
                               {"1KB", SizeError::kSyntax},  // Neither kB nor KiB: it is written for both.
                               {"1M", SizeError::kSyntax},
                               {"1mib", SizeError::kSyntax},
                               {"1.KiB", SizeError::kSyntax},
                               {".5KiB", SizeError::kSyntax},
                               {"1.5", SizeError::kSyntax},
                               {"1e3", SizeError::kSyntax},
                               {"0x10", SizeError::kSyntax},
                               {"1.5.5MB", SizeError::kSyntax},
                               {"1,5MB", SizeError::kSyntax},
                               {"1.5B", SizeError::kFraction},
                               {"0.1KiB", SizeError::kFraction},
                               {"0.0000000001GB", SizeError::kFraction},
                               {"9223372036854775808", SizeError::kOverflow},
                               {"99999999999999999999999999", SizeError::kOverflow},
                               {"9007199254740992KiB", SizeError::kOverflow},
                               {"8589934592GiB", SizeError::kOverflow}};
  for (const RefusedCase& c : cases) EXPECT_EQ(ParseSize(c.text).error, c.error) << c.text;
}

TEST(Value, SizesAreWrittenShortAndReadBackTheSame) {
  EXPECT_EQ(FormatSize(16 << 20), "16MiB");
  EXPECT_EQ(FormatSize(65536), "64KiB");
  EXPECT_EQ(FormatSize(1500000000), "1500MB");
  EXPECT_EQ(FormatSize(1), "1B");
  EXPECT_EQ(FormatSize(0), "0B");
  for (std::int64_t bytes = 1; bytes < (std::int64_t{1} << 40); bytes = bytes * 7 / 2 + 1) {
    EXPECT_EQ(ParseSize(FormatSize(bytes)).bytes, bytes);
  }
}

TEST(Value, IntegersAreDecimal) {
  EXPECT_EQ(ParseInteger("42"), 42);
  EXPECT_EQ(ParseInteger("+42"), 42);
  EXPECT_EQ(ParseInteger("-42"), -42);
  for (const char* bad : {"", "+", "+-1", "1 ", " 1", "1.0", "0x1", "9223372036854775808", "one"}) {
    EXPECT_FALSE(ParseInteger(bad)) << bad;
  }
}

}  // namespace
}  // namespace slipstream::policy
