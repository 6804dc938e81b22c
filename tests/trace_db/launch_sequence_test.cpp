// Steps by what is launched: of loops that bring nothing to the device.
#include "tools/trace/db/launch_sequence.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace slipstream::trace_db {
namespace {

class RepeatedStretchesTest : public ::testing::Test {
 protected:
  void Launch(std::string_view kinds) {
    for (const char kind : kinds) tokens_.push_back(static_cast<uint32_t>(kind));
  }
  void Times(int count, std::string_view kinds) {
    for (int i = 0; i < count; ++i) Launch(kinds);
  }
  std::vector<size_t> Found() const { return RepeatedStretches(tokens_); }
  // All of them, but perhaps the first and the last, are so long.
  void ExpectLength(size_t length, size_t least) const {
    const std::vector<size_t> cuts = Found();
    ASSERT_GT(cuts.size(), least);
    for (size_t i = 1; i + 1 < cuts.size(); ++i) EXPECT_EQ(cuts[i + 1] - cuts[i], length) << i;
  }

  std::vector<uint32_t> tokens_;
};

TEST_F(RepeatedStretchesTest, ALoop) {
  Launch("xyxyz");
  Times(30, "abcdeffgh");
  ExpectLength(9, 28);
}

TEST_F(RepeatedStretchesTest, AKindMayComeSeveralTimesInAStep) {
  Times(40, "MRMRM");
  ExpectLength(5, 38);
}

TEST_F(RepeatedStretchesTest, WhatComesBeforeTheLoopOnlyIsNoPartOfIt) {
  Times(6, "12121");
  Times(40, "MRMRM");
  EXPECT_GE(Found().size(), 40U);
}

TEST_F(RepeatedStretchesTest, TwoModelsInTurnAreOneStep) {
  Times(40, "abababcdcdcdcdcd");
  ExpectLength(16, 38);
}

TEST_F(RepeatedStretchesTest, LayersAreNoSteps) {
  for (int step = 0; step < 12; ++step) {
    Launch("ef");
    Times(96, "abcd");
    Launch("ghijklm");
  }
  ExpectLength(2 + 4 * 96 + 7, 10);
}

// Fourteen of the sixteen rounds have most of a step, and of eight such stretches seven have all that comes with it.
TEST_F(RepeatedStretchesTest, MostOfAStepIsNone) {
  for (int step = 0; step < 200; ++step) {
    Launch("ab");
    Times(3, "cdefghijklmnopq");
    Times(16, "stuvwxyzstuvwxyz12");
    Launch("ABC");
  }
  ExpectLength(2 + 3 * 15 + 16 * 18 + 3, 198);
}

TEST_F(RepeatedStretchesTest, WhatIsLoggedNowAndThenIsNoStep) {
  for (int step = 0; step < 100; ++step) {
    Launch("abcdefghijklmnopqrstuvwxyzABCDEF");
    if (step % 10 == 9) Launch("12");
  }
  EXPECT_GE(Found().size(), 98U);
}

TEST_F(RepeatedStretchesTest, WhatIsFoundInTheMiddleHoldsForAll) {
  Times(20'000, "abcde");
  EXPECT_EQ(Found().size(), 20'000U);
}

TEST_F(RepeatedStretchesTest, LayersOfFewStepsAreNone) {
  for (int step = 0; step < 3; ++step) {
    Times(11, "abcd");
    Launch("ef");
  }
  EXPECT_TRUE(Found().empty());
}

TEST_F(RepeatedStretchesTest, EpochsAreNoSteps) {
  for (int epoch = 0; epoch < 8; ++epoch) {
    Times(30, "abcdefgh");
    Times(5, "ABCD");
  }
  EXPECT_TRUE(Found().empty()) << "neither, as nothing tells which is a step";
}

TEST_F(RepeatedStretchesTest, FourAreTooFew) {
  Times(5, "abcde");
  EXPECT_TRUE(Found().empty()) << "the last of five has no end";
  Times(1, "abcde");
  EXPECT_EQ(Found().size(), 6U);
}

TEST_F(RepeatedStretchesTest, WhatDoesNotRepeatHasNone) {
  std::mt19937 random(7);
  std::uniform_int_distribution<uint32_t> kinds(0, 300);
  for (int i = 0; i < 100'000; ++i) tokens_.push_back(kinds(random));
  EXPECT_TRUE(Found().empty());
  tokens_.clear();
  EXPECT_TRUE(Found().empty());
}

TEST(AsksForWorkTest, ByName) {
  for (const char* const name :
       {"cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch", "cudaMemcpyAsync",
        "cudaMemsetAsync", "cuLaunchKernelEx", "cuGraphLaunch", "cuMemcpyHtoDAsync_v2"}) {
    EXPECT_TRUE(AsksForWork(name)) << name;
  }
  for (const char* const name : {"cudaMalloc", "cudaEventRecord", "cudaStreamIsCapturing", "cuMemAlloc_v2", ""}) {
    EXPECT_FALSE(AsksForWork(name)) << name;
  }
}

class LaunchSequenceTest : public ::testing::Test {
 protected:
  void Launch(uint32_t kernel, uint32_t site = 1, bool is_graph = false) {
    now_ += 100;
    sequence_.Add(kThread, {.site = site,
                            .function = static_cast<uint16_t>(is_graph ? 2 : 1),
                            .is_graph = is_graph,
                            .correlation = ++correlation_,
                            .start_ns = now_,
                            .end_ns = now_ + 10});
    if (kernel != 0) sequence_.Ran(correlation_, kernel);
  }
  static constexpr uint32_t kThread = 3;
  LaunchSequence sequence_;
  uint64_t now_ = 1000;
  uint32_t correlation_ = 0;
};

// Of one line, told by their kernels.
TEST_F(LaunchSequenceTest, TwoModelsAtOneLine) {
  for (int i = 0; i < 20; ++i) {
    for (const uint32_t kernel : {7, 8, 7, 8, 9, 10, 11, 9}) Launch(kernel);
  }
  const auto found = sequence_.Find();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->thread, kThread);
  EXPECT_EQ(found->launches, 8U);
  ASSERT_EQ(found->steps.size(), 20U);
  EXPECT_EQ(found->steps[0].start_ns, 1100U);
  EXPECT_EQ(found->steps[0].end_ns, 1900U) << "where the next begins";
  EXPECT_FALSE(found->steps[0].is_unfinished);
  EXPECT_EQ(found->steps[19].end_ns, now_ + 10) << "its last launch";
  EXPECT_TRUE(found->steps[19].is_unfinished);
}

TEST_F(LaunchSequenceTest, OneKernelAgainAndAgainIsNone) {
  for (int i = 0; i < 100; ++i) Launch(7);
  EXPECT_FALSE(sequence_.Find().has_value());
}

TEST_F(LaunchSequenceTest, AGraphAgainAndAgainIsOneEach) {
  for (int i = 0; i < 50; ++i) Launch(0, 1, /*is_graph=*/true);
  const auto found = sequence_.Find();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->steps.size(), 50U);
  EXPECT_EQ(found->launches, 1U);
}

TEST_F(LaunchSequenceTest, OtherWorkIsCutOff) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 20; ++i) {
      for (const uint32_t kernel : {7, 8, 9, 10}) Launch(kernel);
    }
    if (epoch == 1) {
      for (uint32_t once = 100; once < 140; ++once) Launch(once);
    }
  }
  const auto found = sequence_.Find();
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->steps.size(), 60U);
  const LaunchSequence::Step& before = found->steps[39];
  EXPECT_TRUE(before.is_unfinished);
  EXPECT_EQ(before.end_ns, before.start_ns + 310) << "the end of its fourth launch";
}

}  // namespace
}  // namespace slipstream::trace_db
