// Functions' names as an export of Nsight Systems has them.

#include "tools/trace/db/api_names.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tracer/base/hook_id.h"

namespace slipstream::trace_db {
namespace {

TEST(ApiNamesTest, HaveCuptisVersion) {
  EXPECT_EQ(ApiName("cudaMemcpyAsync"), "cudaMemcpyAsync_v3020");
  EXPECT_EQ(ApiName("cudaMemcpyAsync_ptsz"), "cudaMemcpyAsync_ptsz_v7000");
  EXPECT_EQ(ApiName("cudaMalloc"), "cudaMalloc_v3020");
  EXPECT_EQ(ApiName("cudaLaunchKernel"), "cudaLaunchKernel_v7000");
  EXPECT_EQ(ApiName("__cudaLaunchKernel"), "cudaLaunchKernel_v7000");
  EXPECT_EQ(ApiName("__cudaLaunchKernel_ptsz"), "cudaLaunchKernel_ptsz_v7000");
  // Of two versions the newer one.
  EXPECT_EQ(ApiName("cudaGraphInstantiate"), "cudaGraphInstantiate_v12000");
  // CUPTI has a version of its own in some names, and leaves it out of most.
  EXPECT_EQ(ApiName("cudaStreamGetCaptureInfo_v2"), "cudaStreamGetCaptureInfo_v2_v11030");
  EXPECT_EQ(ApiName("cudaMemPrefetchAsync_v2"), "cudaMemPrefetchAsync_v12020");
  EXPECT_EQ(ApiName("cudaMemPrefetchAsync_v2_ptsz"), "cudaMemPrefetchAsync_ptsz_v12020");
}

TEST(ApiNamesTest, WhatCuptiDoesNotKnowKeepsItsName) {
  EXPECT_EQ(ApiName(""), "");
  EXPECT_EQ(ApiName("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(ApiName("cudaMemcpyAsync_v3020"), "cudaMemcpyAsync_v3020");
}

// Rules look for names that begin with the function's own.
TEST(ApiNamesTest, EveryHookedFunction) {
  const std::regex version("_v[0-9]{4,5}$");
  size_t versioned = 0;
  size_t of_runtime = 0;  // the driver's have no other names
  for (size_t i = 0; i < tracer::kHookCount; ++i) {
    std::string function = tracer::NameOf(static_cast<tracer::HookId>(i));
    of_runtime += IsOfDriver(static_cast<tracer::HookId>(i)) ? 0 : 1;
    const std::string name = ApiName(function);
    if (function.starts_with("__cudaLaunchKernel")) function.erase(0, 2);
    const std::string first = std::regex_replace(function, std::regex("_v[23](?=_|$)"), "");
    ASSERT_TRUE(name.starts_with(name.starts_with(function) ? function : first)) << function << " " << name;
    if (name == function) continue;
    EXPECT_TRUE(std::regex_search(name, version)) << name;
    ++versioned;
  }
  EXPECT_GT(versioned, of_runtime * 9 / 10);
}

TEST(ApiNamesTest, TheDriversFunctions) {
  EXPECT_TRUE(IsDriverFunction("cuMemAlloc_v2"));
  EXPECT_FALSE(IsDriverFunction("cudaMalloc"));
  EXPECT_FALSE(IsDriverFunction("__cudaLaunchKernel"));
  EXPECT_FALSE(IsDriverFunction("cu"));
  EXPECT_FALSE(IsDriverFunction(""));
}

}  // namespace
}  // namespace slipstream::trace_db
