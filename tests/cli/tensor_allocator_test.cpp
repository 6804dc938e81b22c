// What PyTorch is told beside what the user tells it.

#include "tools/cli/tensor_allocator.h"

#include <gtest/gtest.h>

namespace slipstream::cli {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(TensorAllocatorTest, BothVariablesWhereTheUserSaysNothing) {
  for (const Variables& own : {Variables{}, Variables{{"PYTORCH_ALLOC_CONF", " "}}, Variables{{"PATH", "x"}}}) {
    const TensorAllocator told = TellPyTorch(own);
    EXPECT_EQ(told.variables, (Variables{{"PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"},
                                         {"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"}}));
    EXPECT_NE(told.message.find("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"), std::string::npos);
    EXPECT_NE(told.message.find("refuses torch.compile(mode=\"reduce-overhead\")"), std::string::npos);
    EXPECT_NE(told.message.find("allocator.mode = \"segments\""), std::string::npos);
  }
}

TEST(TensorAllocatorTest, TheUsersOptionsStay) {
  const TensorAllocator told = TellPyTorch({{"PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,>:2]"}});
  EXPECT_EQ(told.variables,
            (Variables{{"PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,>:2],backend:cudaMallocAsync"}}));
  EXPECT_FALSE(told.refused);
  EXPECT_EQ(TellPyTorch({{"PYTORCH_ALLOC_CONF", "a:1"}, {"PYTORCH_CUDA_ALLOC_CONF", "b:2"}}).variables,
            (Variables{{"PYTORCH_ALLOC_CONF", "a:1,backend:cudaMallocAsync"},
                       {"PYTORCH_CUDA_ALLOC_CONF", "b:2,backend:cudaMallocAsync"}}));
}

TEST(TensorAllocatorTest, WhatIsSaidAlreadyIsNotSaidAgain) {
  const TensorAllocator told = TellPyTorch({{"PYTORCH_CUDA_ALLOC_CONF", "a:1, backend : cudaMallocAsync"}});
  EXPECT_TRUE(told.variables.empty());
  EXPECT_TRUE(told.message.empty());
  EXPECT_FALSE(told.refused);
}

TEST(TensorAllocatorTest, AnotherBackendIsTheUsersChoice) {
  const TensorAllocator told = TellPyTorch({{"PYTORCH_ALLOC_CONF", "backend:native"}});
  EXPECT_TRUE(told.refused);
  EXPECT_TRUE(told.variables.empty());
  EXPECT_NE(told.message.find("PYTORCH_ALLOC_CONF=backend:native"), std::string::npos);
  EXPECT_TRUE(TellPyTorch({{"PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"},
                           {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64,backend:native"}})
                  .refused);
}

}  // namespace
}  // namespace slipstream::cli
