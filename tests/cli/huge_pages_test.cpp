#include "tools/cli/huge_pages.h"

#include <gtest/gtest.h>

namespace slipstream::cli {
namespace {

using Variables = std::map<std::string, std::string>;
const Variables kAsked = {{"THP_MEM_ALLOC_ENABLE", "1"}};

TEST(HugePagesTest, WhereTheKernelGivesThem) {
  EXPECT_EQ(AskForHugePages({}, "always [madvise] never"), kAsked);
  EXPECT_EQ(AskForHugePages({{"HOME", "/root"}}, "[always] madvise never"), kAsked);
  EXPECT_EQ(AskForHugePages({}, "always madvise [never]"), Variables());
  EXPECT_EQ(AskForHugePages({}, ""), Variables()) << "a kernel without them";
}

TEST(HugePagesTest, TheUsersOwnVariableStays) {
  for (const char* const value : {"0", "1", ""}) {
    EXPECT_EQ(AskForHugePages({{"THP_MEM_ALLOC_ENABLE", value}}, "[always] madvise never"), Variables()) << value;
  }
}

}  // namespace
}  // namespace slipstream::cli
