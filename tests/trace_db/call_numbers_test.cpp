// Numbers of calls beyond what is held in memory: whatever was put there comes back, in whatever order it is asked for.

#include "tools/trace/db/call_numbers.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <map>

#include "tests/support/process.h"

namespace slipstream::trace_db {
namespace {

constexpr uint32_t kPage = CallNumbers::kCallsOfPage;

TEST(CallNumbersTest, NothingIsKnownOfANewOne) {
  const test::Folder folder;
  CallNumbers numbers(folder.path());
  for (const uint32_t cupti : {0U, 1U, kPage - 1, kPage, ~0U}) {
    const CallNumbers::Call* const call = numbers.Of(cupti);
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call->correlation, 0);
    EXPECT_EQ(call->works, 0U);
    EXPECT_EQ(call->seen, 0U);
  }
}

// As a program makes them, with work that comes long after its call.
TEST(CallNumbersTest, WhatIsNotInMemoryComesBack) {
  const test::Folder folder;
  CallNumbers numbers(folder.path(), /*most_pages=*/3);
  constexpr uint32_t kAll = 100 * kPage;
  for (uint32_t cupti = 0; cupti < kAll; ++cupti) {
    CallNumbers::Call* const call = numbers.Of(cupti);
    ASSERT_NE(call, nullptr);
    *call = {.correlation = int64_t{cupti} << 32, .works = cupti + 1, .seen = cupti % 2};
  }
  for (uint32_t cupti = 0; cupti < kAll; ++cupti) {
    const CallNumbers::Call* const call = numbers.Of(cupti);
    ASSERT_NE(call, nullptr);
    ASSERT_EQ(call->correlation, int64_t{cupti} << 32);
    ASSERT_EQ(call->works, cupti + 1);
    ASSERT_EQ(call->seen, cupti % 2);
  }
  EXPECT_EQ(test::NamesIn(folder.path()), std::vector<std::string>()) << "the file has no name";
  EXPECT_EQ(numbers.error(), 0);
}

TEST(CallNumbersTest, InAnyOrder) {
  const test::Folder folder;
  for (const size_t most_pages : {1U, 2U, 7U, 1000U}) {
    CallNumbers numbers(folder.path(), most_pages);
    std::map<uint32_t, int64_t> expected;
    uint32_t random = 1;
    for (int64_t i = 1; i <= 20'000; ++i) {
      random = random * 1664525 + 1013904223;                                        // Numerical Recipes
      const uint32_t cupti = (random >> 8) % 5000 + (i % 3 == 0 ? 0xfffff000U : 0);  // around the end of the numbers
      CallNumbers::Call* const call = numbers.Of(cupti);
      ASSERT_NE(call, nullptr);
      ASSERT_EQ(call->correlation, expected[cupti]) << cupti;
      call->correlation = expected[cupti] = i;
    }
  }
}

TEST(CallNumbersTest, WhereNoFileCanBe) {
  const test::Folder folder;
  CallNumbers numbers(folder / "missing", 2);
  EXPECT_NE(numbers.Of(0), nullptr);
  EXPECT_NE(numbers.Of(kPage), nullptr);
  EXPECT_EQ(numbers.error(), 0);
  EXPECT_EQ(numbers.Of(2 * kPage), nullptr);
  EXPECT_EQ(numbers.error(), ENOENT);
  EXPECT_EQ(numbers.Of(3 * kPage), nullptr);
}

}  // namespace
}  // namespace slipstream::trace_db
