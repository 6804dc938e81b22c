// Places in a program: what a rule's text means, and which calls it means.

#include "policy/site.h"

#include <gtest/gtest.h>

#include "policy/transfer_plan.h"

namespace slipstream::policy {
namespace {

void ExpectSite(std::string_view text, std::string_view file, int line) {
  const auto site = ParseSite(text);
  ASSERT_TRUE(site) << text;
  EXPECT_EQ(site->file, file) << text;
  EXPECT_EQ(site->line, line) << text;
}

TEST(Site, IsAFileAndPerhapsALine) {
  ExpectSite("train.py", "train.py", Site::kAnyLine);
  ExpectSite("train.py:42", "train.py", 42);
  ExpectSite("/a/b.py:1", "/a/b.py", 1);
  ExpectSite("a:b.py", "a:b.py", Site::kAnyLine);
  ExpectSite("a:b.py:3", "a:b.py", 3);
  ExpectSite("<string>", "<string>", Site::kAnyLine);
  ExpectSite("a.py:-3", "a.py:-3", Site::kAnyLine);
  for (const char* const text : {"", ":", ":4", "a.py:", "a.py:0", "a.py:99999999999999999999", "job/"}) {
    EXPECT_FALSE(ParseSite(text)) << text;
  }
}

bool Means(std::string_view rule, std::string_view file, int line) { return Matches(*ParseSite(rule), {file, line}); }

TEST(Site, MeansTheEndOfAPath) {
  EXPECT_TRUE(Means("train.py", "train.py", 1));
  EXPECT_TRUE(Means("train.py", "/data/me/train.py", 7));
  EXPECT_TRUE(Means("me/train.py", "/data/me/train.py", 7));
  EXPECT_TRUE(Means("/data/me/train.py", "/data/me/train.py", 7));
  EXPECT_TRUE(Means("/train.py", "/data/me/train.py", 7));
  EXPECT_FALSE(Means("train.py", "/data/me/pretrain.py", 7));
  EXPECT_FALSE(Means("e/train.py", "/data/me/train.py", 7));
  EXPECT_FALSE(Means("/data/me/train.py", "train.py", 7));
  EXPECT_FALSE(Means("train.py", "", 7));
}

TEST(Site, MeansOneLineOrAll) {
  EXPECT_TRUE(Means("train.py:7", "/x/train.py", 7));
  EXPECT_FALSE(Means("train.py:7", "/x/train.py", 8));
  EXPECT_FALSE(Means("train.py:7", "/x/train.py", Site::kAnyLine));
  EXPECT_TRUE(Means("train.py", "/x/train.py", Site::kAnyLine));
}

TEST(Site, RulesWithoutOneMeanEveryPlace) {
  Transfer policy;
  EXPECT_FALSE(RulesHaveSites(policy));
  policy.rules.resize(3);
  EXPECT_FALSE(RulesHaveSites(policy));
  policy.rules[0].site = "train.py:7";
  policy.rules[2].site = "train.py";
  EXPECT_TRUE(RulesHaveSites(policy));
  const Site here = {"/x/train.py", 7};
  const Site there = {"/x/train.py", 8};
  EXPECT_EQ(RulesAtSite(policy, &here), 0b111U);
  EXPECT_EQ(RulesAtSite(policy, &there), 0b110U);
  EXPECT_EQ(RulesAtSite(policy, nullptr), 0b010U);
}

}  // namespace
}  // namespace slipstream::policy
