// Which file code is from.

#include "tracer/calls/caller_names.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

namespace slipstream::tracer {
namespace {

int InThisProgram() { return 7; }

std::string TextOf(const CallerNames& callers, uint32_t number) {
  std::string_view text = "none";
  return callers.names()->Describe(number, &text) ? std::string(text) : "none";
}

const char* InLibc(const char* function) { return static_cast<const char*>(dlsym(RTLD_DEFAULT, function)) + 4; }

TEST(CallerNamesTest, TheProgramHasNoPathAndLibrariesHaveTheirs) {
  const std::unique_ptr<CallerNames> callers(CallerNames::Create());
  ASSERT_NE(callers, nullptr);
  const void* const here = reinterpret_cast<const char*>(&InThisProgram) + 1;
  const uint32_t program = callers->Of(here);
  EXPECT_EQ(TextOf(*callers, program), "");
  Dl_info info = {};
  ASSERT_NE(dladdr(InLibc("gnu_get_libc_version"), &info), 0);
  const uint32_t libc = callers->Of(InLibc("gnu_get_libc_version"));
  EXPECT_NE(libc, program);
  EXPECT_EQ(TextOf(*callers, libc), info.dli_fname);
  // Again, and from elsewhere in the same file.
  EXPECT_EQ(callers->Of(InLibc("gnu_get_libc_version")), libc);
  EXPECT_EQ(callers->Of(InLibc("gnu_get_libc_release")), libc);
  EXPECT_EQ(callers->Of(here), program);
}

TEST(CallerNamesTest, WhatIsInNoFileIsUnknown) {
  const std::unique_ptr<CallerNames> callers(CallerNames::Create());
  ASSERT_NE(callers, nullptr);
  const auto memory = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(callers->Of(nullptr), RangeNames::kUnknown);
  EXPECT_EQ(callers->Of(memory->data() + 50), RangeNames::kUnknown);
  EXPECT_EQ(callers->Of(reinterpret_cast<const void*>(~uintptr_t{0})), RangeNames::kUnknown);
}

// More callers than places: each is what it is, however often they take turns.
TEST(CallerNamesTest, CallersThatShareAPlaceKeepTheirOwnNames) {
  const std::unique_ptr<CallerNames> callers(CallerNames::Create());
  ASSERT_NE(callers, nullptr);
  const char* const in_program = reinterpret_cast<const char*>(&InThisProgram) + 1;
  const char* const in_libc = InLibc("gnu_get_libc_version");
  const uint32_t program = callers->Of(in_program);
  const uint32_t libc = callers->Of(in_libc);
  for (int i = 1; i < 9000; ++i) {
    ASSERT_EQ(callers->Of(in_libc + i % 3000), libc) << i;
    ASSERT_EQ(callers->Of(in_program + i % 8), program) << i;
  }
  EXPECT_EQ(callers->names()->size(), 3U);
}

}  // namespace
}  // namespace slipstream::tracer
