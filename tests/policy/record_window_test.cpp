#include "policy/record_window.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace slipstream::policy {
namespace {

// Of the numbers up to 12, those that it has.
std::vector<uint64_t> In(const std::string& text) {
  const std::optional<RecordWindow> window = RecordWindow::Parse(text);
  EXPECT_TRUE(window) << text;
  std::vector<uint64_t> in;
  for (uint64_t at = 0; window && at <= 12; ++at) {
    if (window->Has(at)) in.push_back(at);
  }
  return in;
}

using Numbers = std::vector<uint64_t>;

TEST(RecordWindow, StepsAreInItUpToTheLastOne) {
  EXPECT_EQ(In("steps 3-5"), (Numbers{3, 4, 5}));
  EXPECT_EQ(In("steps 4"), (Numbers{4}));
  EXPECT_EQ(In("steps 11-"), (Numbers{11, 12}));
  EXPECT_EQ(In("steps 8-9,0-1,12-"), (Numbers{0, 1, 8, 9, 12}));
}

TEST(RecordWindow, SecondsEndWhereTheNextOneBegins) {
  EXPECT_EQ(In("seconds 3-5"), (Numbers{3, 4}));
  EXPECT_EQ(In("seconds 11-"), (Numbers{11, 12}));
  EXPECT_EQ(In("seconds 0-1,7-8"), (Numbers{0, 7}));
}

TEST(RecordWindow, EmptyIsAllOfIt) {
  EXPECT_EQ(In("").size(), 13U);
  EXPECT_EQ(RecordWindow::Parse("")->unit(), RecordWindow::Unit::kAlways);
  EXPECT_EQ(RecordWindow::Parse("steps 1")->unit(), RecordWindow::Unit::kSteps);
  EXPECT_EQ(RecordWindow::Parse("seconds 1-2")->unit(), RecordWindow::Unit::kSeconds);
}

TEST(RecordWindow, WhatIsNone) {
  for (const char* const text :
       {"steps", "steps ", "step 1", "10-20", "minutes 1-2", "steps -3", "steps 5-3", "steps 1,", "steps 1-2-3",
        "steps 1 -2", "steps a-b", "steps 99999999999999999999", "seconds 3", "seconds 3-3", "steps 1;2", " steps 1"}) {
    EXPECT_FALSE(RecordWindow::Parse(text)) << text;
  }
  std::string many = "steps 0";
  for (size_t i = 1; i < RecordWindow::kMostParts; ++i) many += ",0";
  EXPECT_TRUE(RecordWindow::Parse(many));
  EXPECT_FALSE(RecordWindow::Parse(many + ",0"));
}

}  // namespace
}  // namespace slipstream::policy
