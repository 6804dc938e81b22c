// What PyTorch is told beside what the user tells it, and where it would be told in vain.

#include "tools/cli/expandable_segments.h"

#include <gtest/gtest.h>

namespace slipstream::cli {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(ExpandableSegmentsTest, BothVariablesWhereTheUserSaysNothing) {
  for (const Variables& own : {Variables{}, Variables{{"PYTORCH_ALLOC_CONF", " "}}, Variables{{"PATH", "x"}}}) {
    const ExpandableSegments asked = AskForExpandableSegments(own);
    EXPECT_EQ(asked.variables, (Variables{{"PYTORCH_ALLOC_CONF", "expandable_segments:True"},
                                          {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}));
    EXPECT_FALSE(asked.refused);
    EXPECT_EQ(asked.message,
              "for PyTorch's tensors: PYTORCH_ALLOC_CONF=expandable_segments:True "
              "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  }
}

TEST(ExpandableSegmentsTest, TheUsersOptionsStay) {
  // The new variable would outrank the user's, and is not set.
  EXPECT_EQ(AskForExpandableSegments({{"PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,>:2]"}}).variables,
            (Variables{{"PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,>:2],expandable_segments:True"}}));
  // A release that reads the old one alone sees none of the user's.
  EXPECT_EQ(AskForExpandableSegments({{"PYTORCH_ALLOC_CONF", "a:1"}}).variables,
            (Variables{{"PYTORCH_ALLOC_CONF", "a:1,expandable_segments:True"},
                       {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}));
  EXPECT_EQ(AskForExpandableSegments({{"PYTORCH_ALLOC_CONF", "a:1"}, {"PYTORCH_CUDA_ALLOC_CONF", "b:2"}}).variables,
            (Variables{{"PYTORCH_ALLOC_CONF", "a:1,expandable_segments:True"},
                       {"PYTORCH_CUDA_ALLOC_CONF", "b:2,expandable_segments:True"}}));
}

TEST(ExpandableSegmentsTest, WhatTheUserAsksForIsNotAskedForAgain) {
  const ExpandableSegments asked =
      AskForExpandableSegments({{"PYTORCH_CUDA_ALLOC_CONF", "a:1, expandable_segments : True, backend:native"}});
  EXPECT_TRUE(asked.variables.empty());
  EXPECT_EQ(asked.message, "");
  EXPECT_FALSE(asked.refused);
}

TEST(ExpandableSegmentsTest, TheUserWins) {
  const ExpandableSegments no = AskForExpandableSegments({{"PYTORCH_ALLOC_CONF", "expandable_segments:False"}});
  EXPECT_TRUE(no.refused);
  EXPECT_TRUE(no.variables.empty());
  EXPECT_NE(no.message.find("PYTORCH_ALLOC_CONF=expandable_segments:False is set, and it says "
                            "expandable_segments:False."),
            std::string::npos)
      << no.message;
  const ExpandableSegments other =
      AskForExpandableSegments({{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64,backend:cudaMallocAsync"}});
  EXPECT_TRUE(other.refused);
  EXPECT_NE(other.message.find("its backend cudaMallocAsync has none"), std::string::npos) << other.message;
  // The last pair of a key counts, and the new variable.
  EXPECT_FALSE(
      AskForExpandableSegments({{"PYTORCH_ALLOC_CONF", "expandable_segments:False,expandable_segments:True"}}).refused);
  EXPECT_FALSE(
      AskForExpandableSegments({{"PYTORCH_ALLOC_CONF", "a:1"}, {"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"}})
          .refused);
}

TEST(ExpandableSegmentsTest, WhereTheyDoNotApply) {
  // This machine's own answer about processes aside.
  const size_t here = WhyNotExpandable("2.11.0+cu130 (CUDA 13.0)", {{0, true}}).size();
  EXPECT_LE(here, 1U);
  EXPECT_EQ(WhyNotExpandable("python3 cannot import torch", {{0, true}}).size(), here);
  const std::vector<std::string> old = WhyNotExpandable("2.0.1 (CUDA 11.8)", {{0, true}, {1, false}});
  ASSERT_EQ(old.size(), here + 2);
  EXPECT_EQ(old[0].find("PyTorch 2.0 has no expandable segments"), 0U) << old[0];
  EXPECT_EQ(old[1].find("device 1 cannot map memory by hand"), 0U) << old[1];
}

}  // namespace
}  // namespace slipstream::cli
