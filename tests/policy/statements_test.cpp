#include "policy/statements.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace slipstream::policy {
namespace {

using Lines = std::vector<std::pair<int, int>>;

Lines LinesOf(std::string_view text) {
  Lines lines;
  for (const Statement& s : OutlineOf(text).statements) lines.emplace_back(s.first_line, s.last_line);
  return lines;
}

TEST(Statements, EachLineIsOneUnlessAValueGoesOn) {
  EXPECT_EQ(LinesOf(""), Lines{});
  EXPECT_EQ(LinesOf("a=1"), (Lines{{1, 1}}));
  EXPECT_EQ(LinesOf("a=1\n\nb=2\n"), (Lines{{1, 1}, {2, 2}, {3, 3}}));
  EXPECT_EQ(LinesOf("a=[1,\n2]\nb=2"), (Lines{{1, 2}, {3, 3}}));
  EXPECT_EQ(LinesOf("a='''\n[\n'''\nb=2"), (Lines{{1, 3}, {4, 4}}));
  EXPECT_EQ(LinesOf("a=\"\"\"\n\\\"\"\"\n\"\"\"\"\"\nb=2"), (Lines{{1, 3}, {4, 4}}));
  EXPECT_EQ(LinesOf("a=[\"\"\"x\"\"\"\"]\nb=2"), (Lines{{1, 1}, {2, 2}}));
  EXPECT_EQ(LinesOf("a=\"[\" # [\nb=2"), (Lines{{1, 1}, {2, 2}}));
  // Unfinished ones: a header and a string end with the line, an array and a block with the text.
  EXPECT_EQ(LinesOf("[a\nb=2"), (Lines{{1, 1}, {2, 2}}));
  EXPECT_EQ(LinesOf("a=\"x\nb=2"), (Lines{{1, 1}, {2, 2}}));
  EXPECT_EQ(LinesOf("a=[\nb=2"), (Lines{{1, 2}}));
}

TEST(Statements, HeadersAndDotsAreSeen) {
  const Outline outline = OutlineOf("[a.b] # x.y\n c.d.e = \"f.g\"\n\t[h]\n");
  ASSERT_EQ(outline.statements.size(), 3U);
  EXPECT_TRUE(outline.statements[0].header);
  EXPECT_FALSE(outline.statements[1].header);
  EXPECT_TRUE(outline.statements[2].header);
  EXPECT_EQ(outline.dots, 3U);
}

}  // namespace
}  // namespace slipstream::policy
