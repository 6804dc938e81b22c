// Which line begins a step: of loops as people write them.
#include "tools/trace/db/step_finder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace slipstream::trace_db {
namespace {

// Lines of a script, by number; those that copy.
enum Line : uint32_t {
  kInit = 1,
  kImages = 10,
  kLabels,
  kForward,
  kLoss,
  kBackward,
  kOptimizer,
  kZero,
  kItem,
  kValidate = 30,
  kScore,
  kSave = 40,
  kWeights = 50,
  kLayer = 100,  // and those behind it
};

class StepFinderTest : public ::testing::Test {
 protected:
  static bool Copies(uint32_t line) {
    return line == kInit || line == kImages || line == kLabels || line == kItem || line == kValidate || line == kSave ||
           line == kWeights;
  }
  void Visit(uint32_t line) { visits_.push_back({line, Copies(line)}); }
  void Visit(std::initializer_list<uint32_t> lines) {
    for (const uint32_t line : lines) Visit(line);
  }
  // Twelve layers, each of eight lines, of a transformer.
  void Model() {
    for (int layer = 0; layer < 12; ++layer) {
      for (uint32_t line = 0; line < 8; ++line) Visit(kLayer + line);
    }
  }
  void Train(int steps) {
    for (int step = 0; step < steps; ++step) {
      Visit({kImages, kLabels, kForward});
      Model();
      Visit({kLoss, kBackward, kOptimizer, kZero});
    }
  }
  std::optional<uint32_t> Found() const { return FindStepLine(visits_); }

  std::vector<LineVisit> visits_;
};

TEST_F(StepFinderTest, APlainLoop) {
  for (int i = 0; i < 40; ++i) Visit({kInit, kInit + 1});
  Train(30);
  EXPECT_EQ(Found(), kImages);
}

TEST_F(StepFinderTest, LayersAreNoSteps) {
  Train(6);
  EXPECT_EQ(Found(), kImages);
}

// Short of lines of its own, a loop has fewer of all lines than what runs between two epochs.
TEST_F(StepFinderTest, AnEvaluationMayHaveMoreLinesThanAStep) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int step = 0; step < 40; ++step) Visit({kImages, kForward, kItem});
    for (int batch = 0; batch < 40; ++batch) Visit({kValidate, kScore, kScore + 1, kScore + 2});
    for (int part = 0; part < 6; ++part) Visit({kSave, kSave + 1});
  }
  EXPECT_EQ(Found(), kImages);
}

// What else a step has is once in each step: it is missing from the loop over layers, and that is no step.
TEST_F(StepFinderTest, WhatComesOnceIsOfNoOtherLoop) {
  for (int step = 0; step < 20; ++step) {
    for (int layer = 0; layer < 12; ++layer) Visit({kWeights, kLayer});
    for (uint32_t line = 0; line < 3; ++line) Visit(kLoss + line);
  }
  EXPECT_EQ(Found(), kLoss);
}

TEST_F(StepFinderTest, EpochsAndValidationAreNoSteps) {
  for (int epoch = 0; epoch < 6; ++epoch) {
    Train(20);
    for (int batch = 0; batch < 5; ++batch) {
      Visit({kValidate, kForward});
      Model();
      Visit(kScore);
    }
    Visit(kSave);
  }
  EXPECT_EQ(Found(), kImages);
}

TEST_F(StepFinderTest, ALossThatIsReadIsNoOtherStep) {
  for (int step = 0; step < 50; ++step) {
    Train(1);
    Visit(kItem);
  }
  EXPECT_EQ(Found(), kImages);
}

TEST_F(StepFinderTest, WhatIsReadNowAndThenIsNoStep) {
  for (int step = 0; step < 100; ++step) {
    Train(1);
    if (step % 10 == 9) Visit({kItem, kSave});
  }
  EXPECT_EQ(Found(), kImages);
}

TEST_F(StepFinderTest, BatchesThatAreAddedUpAreSteps) {
  for (int step = 0; step < 20; ++step) {
    for (int part = 0; part < 4; ++part) {
      Visit({kImages, kLabels, kForward});
      Model();
      Visit({kLoss, kBackward});
    }
    Visit({kOptimizer, kZero});
  }
  EXPECT_EQ(Found(), kImages);
}

// Weights that come layer by layer are copied more often than batches.
TEST_F(StepFinderTest, OffloadedLayersAreNoSteps) {
  for (int step = 0; step < 20; ++step) {
    Visit({kImages, kLabels, kForward});
    for (int layer = 0; layer < 8; ++layer) Visit({kWeights, kLayer, kLayer + 1});
    Visit({kLoss, kBackward, kOptimizer, kZero});
  }
  EXPECT_EQ(Found(), kImages);
}

TEST_F(StepFinderTest, BatchesThatAreMadeOnTheDevice) {
  for (int step = 0; step < 20; ++step) Visit({kForward, kLayer, kLayer + 1, kLoss, kBackward, kOptimizer, kZero});
  EXPECT_EQ(Found(), kForward);
}

// Captured into a CUDA graph, the lines of a step run in its warm-up only: three times, or eleven under DDP.
TEST_F(StepFinderTest, AStepThatWasCaptured) {
  for (const int warm_up : {4, 12}) {
    visits_.clear();
    Train(warm_up);
    for (int step = 0; step < 1000; ++step) Visit({kWeights, kLayer + 50});
    EXPECT_EQ(Found(), kWeights) << warm_up;
  }
}

// What runs for a short while only is not the program's loop, however regular it is.
TEST_F(StepFinderTest, ALoopThatSoonEndsIsNoStep) {
  for (int parameter = 0; parameter < 300; ++parameter) Visit({kWeights, kLayer + 50});
  uint32_t state = 1;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1'664'525 + 1'013'904'223;
    Visit(kLayer + (state >> 16) % 40);
  }
  EXPECT_EQ(Found(), std::nullopt);
}

TEST_F(StepFinderTest, NoLoop) {
  EXPECT_EQ(Found(), std::nullopt);
  for (uint32_t line = 1; line < 500; ++line) Visit(line);
  EXPECT_EQ(Found(), std::nullopt);
  visits_.clear();
  Train(4);  // one visit too few
  EXPECT_EQ(Found(), std::nullopt);
  Train(1);
  EXPECT_EQ(Found(), kImages);
}

// Of 19 whole steps; the last one has no end.
TEST(LoopOfTest, LinesByHowManyStepsVisitThem) {
  std::vector<LineVisit> visits = {{.site = 5, .copies = true, .start_ns = 50}};  // before the loop
  for (uint64_t step = 0; step < 20; ++step) {
    const uint64_t at = 100 + 100 * step + (step > 10 ? 900 : 0);  // one takes 1000
    const auto visit = [&](uint32_t site) { visits.push_back({.site = site, .copies = site == 10, .start_ns = at}); };
    for (const uint32_t site : {10U, 11U, 12U}) visit(site);
    if (step % 2 == 0) visit(13);  // 10 of 19
    if (step == 0 || step == 4 || step == 8) {
      visit(20);  // 3 of 19: more than one of eight
      visit(21);
      visit(20);  // once more in the same step
    }
    if (step == 5 || step == 6) visit(30);  // 2 of 19
    if (step == 19) visit(31);
  }
  const StepLoop loop = LoopOf(visits, 10);
  EXPECT_EQ(loop.own, (std::vector<uint32_t>{10, 11, 12, 13}));
  EXPECT_EQ(loop.often, (std::vector<uint32_t>{20, 21}));
  EXPECT_EQ(loop.median_ns, 100);
  EXPECT_TRUE(LoopOf({}, 10).own.empty());
}

// A service that answers whatever comes: lines come again, in no order.
TEST_F(StepFinderTest, NothingRegular) {
  uint32_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525 + 1013904223;
    visits_.push_back({1 + (random >> 16) % 40, (random >> 8) % 8 == 0});
  }
  EXPECT_EQ(Found(), std::nullopt);
}

TEST(StepFinder, CallsOfOneLineAreOneVisit) {
  StepFinder finder;
  for (int step = 0; step < 6; ++step) {
    for (int tensor = 0; tensor < 64; ++tensor) {
      finder.AddCall(1, 10, true);
      finder.AddCall(1, 0, false);  // a call without a line
      finder.AddCall(1, 10, false);
    }
    for (const uint32_t line : {11, 12, 13}) finder.AddCall(1, line, false);
  }
  const auto found = finder.Find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->site, 10U);
  EXPECT_EQ(found->thread, 1U);
}

TEST(StepFinder, TheBusiestThreadThatHasSteps) {
  StepFinder finder;
  for (uint32_t i = 0; i < 1000; ++i) finder.AddCall(1, 100 + i, true);  // a loader's, never the same
  for (int step = 0; step < 20; ++step) {
    for (const uint32_t line : {10, 11, 12, 13}) finder.AddCall(2, line, line == 10);
    for (const uint32_t line : {20, 21}) finder.AddCall(3, line, line == 20);
  }
  const auto found = finder.Find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->thread, 2U);
  EXPECT_EQ(found->site, 10U);
}

TEST(StepFinder, ItKeepsABoundedNumber) {
  StepFinder finder;
  for (uint32_t thread = 1; thread <= 2 * StepFinder::kMostThreads; ++thread) {
    for (size_t i = 0; i < StepFinder::kMostVisits / 8; ++i) {
      for (const uint32_t line : {10, 11, 12}) finder.AddCall(thread, line, line == 10);
    }
  }
  for (size_t i = 0; i < 2 * StepFinder::kMostVisits; ++i) finder.AddCall(1, 500 + i % 2, true);
  const auto found = finder.Find();
  ASSERT_TRUE(found);
  EXPECT_LE(found->thread, StepFinder::kMostThreads);
  EXPECT_EQ(finder.visits(),
            StepFinder::kMostVisits + (StepFinder::kMostThreads - 1) * (StepFinder::kMostVisits / 8) * 3);
}

TEST(StepFinder, WhatACopyIs) {
  EXPECT_TRUE(IsCopy("cudaMemcpyAsync_ptsz"));
  EXPECT_TRUE(IsCopy("cudaMemcpy"));
  EXPECT_FALSE(IsCopy("cudaMemsetAsync"));
  EXPECT_FALSE(IsCopy("cudaStreamSynchronize"));
}

}  // namespace
}  // namespace slipstream::trace_db
