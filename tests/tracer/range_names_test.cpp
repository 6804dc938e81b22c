// Names of ranges: one number a text, whoever gives it, and back.

#include "tracer/spool/range_names.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace slipstream::tracer {
namespace {

std::string TextOf(const RangeNames& names, uint32_t name) {
  std::string_view text = "none";
  return names.Describe(name, &text) ? std::string(text) : "none";
}

TEST(RangeNamesTest, ATextHasOneNumberAndComesBack) {
  const std::unique_ptr<RangeNames> names(RangeNames::Create({}));
  std::string forward = "forward";
  const uint32_t first = names->Intern(forward);
  EXPECT_NE(first, RangeNames::kUnknown);
  forward = "another";  // the caller's bytes are its own
  EXPECT_EQ(names->Intern("forward"), first);
  EXPECT_NE(names->Intern("forward "), first);
  EXPECT_NE(names->Intern(""), RangeNames::kUnknown);
  EXPECT_EQ(TextOf(*names, first), "forward");
  EXPECT_EQ(TextOf(*names, names->Intern("")), "");
  EXPECT_EQ(TextOf(*names, RangeNames::kUnknown), "none");
  EXPECT_EQ(TextOf(*names, names->size()), "none");
  EXPECT_EQ(names->size(), 4U);
  EXPECT_EQ(names->unknown(), 0U);
}

TEST(RangeNamesTest, SoMuchOfATextIsKept) {
  const std::unique_ptr<RangeNames> names(RangeNames::Create({}));
  const std::string same(RangeNames::kMaxTextBytes, 'x');
  const uint32_t name = names->Intern(same + "one");
  EXPECT_EQ(names->Intern(same + "two"), name);
  EXPECT_EQ(TextOf(*names, name), same);
}

TEST(RangeNamesTest, WithoutRoomATextIsUnknownAndThoseBeforeItStay) {
  const std::unique_ptr<RangeNames> names(RangeNames::Create({.names = 4, .bytes = 1000}));
  const uint32_t a = names->Intern("a");
  names->Intern("b");
  names->Intern("c");
  EXPECT_EQ(names->Intern("d"), RangeNames::kUnknown);
  EXPECT_EQ(names->Intern("a"), a);
  EXPECT_EQ(names->unknown(), 1U);

  const std::unique_ptr<RangeNames> few(RangeNames::Create({.names = 64, .bytes = 10}));
  const uint32_t six = few->Intern("123456");
  EXPECT_EQ(few->Intern("654321"), RangeNames::kUnknown);
  EXPECT_NE(few->Intern("7890"), RangeNames::kUnknown);
  EXPECT_EQ(few->Intern("x"), RangeNames::kUnknown);
  EXPECT_EQ(TextOf(*few, six), "123456");
  EXPECT_EQ(few->unknown(), 2U);
  EXPECT_EQ(few->size(), 3U);
}

TEST(RangeNamesTest, ThreadsAgree) {
  constexpr int kThreads = 4;
  constexpr int kTexts = 500;
  const std::unique_ptr<RangeNames> names(RangeNames::Create({}));
  std::vector<std::vector<uint32_t>> given(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : given) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < kTexts; ++i) mine.push_back(names->Intern("range " + std::to_string(i)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> different;
  for (size_t i = 0; i < given[0].size(); ++i) {
    for (const auto& mine : given) EXPECT_EQ(mine[i], given[0][i]);
    EXPECT_EQ(given[0][i], given[0][i % kTexts]);
    EXPECT_EQ(TextOf(*names, given[0][i]), "range " + std::to_string(i % kTexts));
    different.insert(given[0][i]);
  }
  EXPECT_EQ(different.size(), static_cast<size_t>(kTexts));
}

}  // namespace
}  // namespace slipstream::tracer
