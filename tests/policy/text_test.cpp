#include "policy/text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "policy/nearest.h"
#include "policy/problem.h"

namespace slipstream::policy {
namespace {

using std::string_literals::operator""s;

TEST(Text, EscapeLeavesOnlyPrintableText) {
  EXPECT_EQ(Escape("plain \"text\" with é and \\"), "plain \"text\" with é and \\");
  EXPECT_EQ(Escape("a\nb\tc\rd\033[31me\x7f"), "a\\nb\\tc\\rd\\u001b[31me\\u007f");
  EXPECT_EQ(Escape("a\0b"s), "a\\u0000b");
  EXPECT_EQ(Escape("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Escape("\xc2\x9b"), "\\u009b");  // CSI in one character.
  // What turns the direction of text, or ends a line.
  // NOLINTNEXTLINE(misc-misleading-bidirectional)
  EXPECT_EQ(Escape("a\u200e\u200f\u202a\u202eb\u2066\u2069\u2028"),
            "a\\u200e\\u200f\\u202a\\u202eb\\u2066\\u2069\\u2028");
  EXPECT_EQ(Escape("\u200d\u2010\u2027\u202f\u2065\u206a\u2713"), "\u200d\u2010\u2027\u202f\u2065\u206a\u2713");
}

TEST(Text, QuoteMakesATomlStringOfBoundedLength) {
  EXPECT_EQ(Quote("C:\\\"x\""), "\"C:\\\\\\\"x\\\"\"");
  EXPECT_EQ(Quote("ééééé", 3), "\"ééé\"...");
  EXPECT_EQ(Quote("ééé", 3), "\"ééé\"");
}

TEST(Text, Utf8CharactersAreTheValidOnesOnly) {
  EXPECT_EQ(Utf8CharacterLength("a"), 1U);
  EXPECT_EQ(Utf8CharacterLength("é"), 2U);
  EXPECT_EQ(Utf8CharacterLength("€"), 3U);
  EXPECT_EQ(Utf8CharacterLength("😀"), 4U);
  for (const std::string& bad :
       std::vector<std::string>{"", "\x80", "\xc0\xaf", "\xc1\x81", "\xc3", "\xc3("s, "\xe0\x80\xaf", "\xed\xa0\x80",
                                "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(Utf8CharacterLength(bad), 0U) << Escape(bad);
  }
}

TEST(Nearest, EditDistanceCountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0U);
  EXPECT_EQ(EditDistance("abc", ""), 3U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(EditDistance("vesrion", "version"), 1U);
}

TEST(Nearest, FindsWhatWasMeantAndNothingElse) {
  const std::array<std::string, 4> keys{"log.level", "intercept.level", "allocator.mode", "transfer.h2d"};
  EXPECT_EQ(Nearest("alocator.mode", keys), "allocator.mode");
  EXPECT_EQ(Nearest("transfer.hd2", keys), "transfer.h2d");
  EXPECT_EQ(Nearest("h2d", keys), "transfer.h2d");
  EXPECT_EQ(Nearest("tracer.h2d", keys), "transfer.h2d");
  EXPECT_EQ(Nearest("level", keys), "");  // Two of them.
  EXPECT_EQ(Nearest("weather", keys), "");
  EXPECT_EQ(Nearest("", keys), "");
  // So long that looking would take long.
  EXPECT_EQ(Nearest(std::string(129, 'x'), std::array{std::string(128, 'x')}), "");
  const std::array<std::string, 2> words{"on", "off"};
  EXPECT_EQ(Nearest("xy", words), "");
  EXPECT_EQ(Nearest("of", words), "on");  // One edit each: the first.
}

TEST(Problem, FormatIsOneLine) {
  EXPECT_EQ((Problem{.file = "policy.toml",
                     .line = 7,
                     .column = 3,
                     .key = "a.b",
                     .what = "unknown key \"a.b\"",
                     .suggestion = "c.d"}
                 .Format()),
            "policy.toml:7:3: unknown key \"a.b\"; did you mean \"c.d\"?");
  EXPECT_EQ((Problem{.file = "evil\nname", .what = "cannot be opened: x"}.Format()),
            "evil\\nname: cannot be opened: x");
  EXPECT_EQ((Problem{.variable = "SLIPSTREAM_X", .key = "x", .found = "1", .expected = "2"}.Format()),
            "environment variable SLIPSTREAM_X: found 1, expected 2");
  EXPECT_EQ((Problem{.file = "p", .line = 1, .column = 2, .key = "x", .what = "too much", .found = "1", .expected = "2"}
                 .Format()),
            "p:1:2: \"x\": found 1 (too much), expected 2");
}

}  // namespace
}  // namespace slipstream::policy
