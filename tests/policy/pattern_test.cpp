#include "policy/pattern.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace slipstream::policy {
namespace {

TEST(Pattern, WhatPatternsMean) {
  EXPECT_TRUE(MatchesPattern("git", "git"));
  EXPECT_FALSE(MatchesPattern("git", "gitk"));
  EXPECT_FALSE(MatchesPattern("git", "legit"));
  EXPECT_TRUE(MatchesPattern("git*", "git"));
  EXPECT_TRUE(MatchesPattern("git*", "git-lfs"));
  EXPECT_TRUE(MatchesPattern("*/bin/*", "/usr/local/bin/x/y"));
  EXPECT_FALSE(MatchesPattern("*/bin/*", "/usr/sbin/x"));
  EXPECT_TRUE(MatchesPattern("python3.?", "python3.9"));
  EXPECT_FALSE(MatchesPattern("python3.?", "python3.12"));
  EXPECT_TRUE(MatchesPattern("cc[1-9]*", "cc1plus"));
  EXPECT_FALSE(MatchesPattern("cc[!1-9]*", "cc1plus"));
  EXPECT_TRUE(MatchesPattern("a[]x]", "a]"));
  EXPECT_TRUE(MatchesPattern("\\*", "*"));
  EXPECT_FALSE(MatchesPattern("\\*", "x"));
  EXPECT_TRUE(MatchesPattern("[x", "[x"));
  EXPECT_TRUE(MatchesPattern("", ""));
  EXPECT_FALSE(MatchesPattern("", "x"));
  EXPECT_TRUE(MatchesPattern("***", ""));
}

// The C library's, which may not be called where these are. Without what is not ours: classes, and a backslash or a
// bracket at the very end, which the two may take for different mistakes.
TEST(Pattern, IsWhatTheCLibrarySays) {
  std::mt19937 random(7);
  const std::string in_patterns = "ab-*?[]!^\\/.";
  const std::string in_texts = "ab-*[]!^\\/.";
  const auto pick = [&random](const std::string& from, std::size_t most) {
    std::string text;
    for (std::size_t left = random() % (most + 1); left > 0; --left) text += from[random() % from.size()];
    return text;
  };
  int compared = 0;
  int matched = 0;
  for (int i = 0; i < 300000; ++i) {
    const std::string pattern = pick(in_patterns, 8);
    if (pattern.find("[.") != std::string::npos || pattern.ends_with('\\') || pattern.ends_with('[')) continue;
    // An escape in a bracket that is not closed.
    if (pattern.find('[') != std::string::npos && pattern.find('\\') != std::string::npos) continue;
    const std::string text = pick(in_texts, 6);
    const bool expected = fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
    ASSERT_EQ(MatchesPattern(pattern, text), expected) << pattern << " of " << text;
    ++compared;
    matched += expected ? 1 : 0;
  }
  EXPECT_GT(compared, 150000);
  EXPECT_GT(matched, 5000);
}

TEST(Pattern, EscapesInABracket) {
  EXPECT_TRUE(MatchesPattern("[\\]]", "]"));
  EXPECT_TRUE(MatchesPattern("[a\\-z]", "-"));
  EXPECT_FALSE(MatchesPattern("[a\\-z]", "b"));
  EXPECT_EQ(fnmatch("[a\\-z]", "b", 0), FNM_NOMATCH);
}

// Backtracking costs at most the product of the lengths; exponential time would not end.
TEST(Pattern, ManyStarsEnd) {
  std::string pattern;
  for (int i = 0; i < 120; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesPattern(pattern + "b", std::string(4000, 'a')));
}

}  // namespace
}  // namespace slipstream::policy
