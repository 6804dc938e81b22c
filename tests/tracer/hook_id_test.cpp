#include "tracer/base/hook_id.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace slipstream::tracer {
namespace {

TEST(HookIdTest, NamesAreUniqueAndFitAFileEntry) {
  std::set<std::string> names;
  for (size_t i = 0; i < kHookCount; ++i) {
    const std::string name = NameOf(static_cast<HookId>(i));
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_LT(name.size(), 64U) << name;
    EXPECT_NE(NameOf(GroupOf(static_cast<HookId>(i))), "unknown") << name;
  }
}

TEST(HookIdTest, LegacyAndPerThreadStreamNamesAreDifferentHooks) {
  EXPECT_STREQ(NameOf(HookId::cudaMemcpyAsync), "cudaMemcpyAsync");
  EXPECT_STREQ(NameOf(HookId::cudaMemcpyAsync_ptsz), "cudaMemcpyAsync_ptsz");
  EXPECT_STREQ(NameOf(HookId::cudaMemcpy_ptds), "cudaMemcpy_ptds");
  EXPECT_EQ(GroupOf(HookId::cudaMemcpy_ptds), HookGroup::kCopy);
}

}  // namespace
}  // namespace slipstream::tracer
