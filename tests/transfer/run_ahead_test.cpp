// How many synchronises a stream may owe (S23), and how often the driver is asked for that.

#include "transfer/run_ahead.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/transfer/played_driver.h"

namespace slipstream::transfer {
namespace {

using played::Context;
using played::g_passed;
using played::g_questions;

// As in the engine, never destroyed.
struct Parts {
  Driver driver;
  FencePool fences{driver};
  RunAhead ahead;
};

class RunAheadTest : public ::testing::Test {
 protected:
  static Parts& NewParts() {
    static auto* const all = new std::deque<Parts>;
    Parts& parts = all->emplace_back();
    played::PlayedBy(&parts.driver);
    return parts;
  }
  void SetUp() override { g_questions = 0; }

  FenceRef Owe(const StreamKey& stream) {
    FenceRef fence = parts_.fences.Record(Context(), stream.handle);
    ahead_.Owe(stream, fence);
    return fence;
  }
  static void Pass(const FenceRef& fence) { g_passed.insert(fence.event()); }

  Parts& parts_ = NewParts();
  RunAhead& ahead_ = parts_.ahead;
  const StreamKey a_ = {reinterpret_cast<CUstream>(0x100), 0};
  const StreamKey b_ = {reinterpret_cast<CUstream>(0x200), 0};
};

TEST_F(RunAheadTest, TheThirdWaitsForTheFirst) {
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  const FenceRef first = Owe(a_);
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  const FenceRef second = Owe(a_);
  EXPECT_EQ(ahead_.MustWaitFor(a_).event(), first.event());
  EXPECT_FALSE(ahead_.MustWaitFor(b_)) << "each stream by itself";
  Pass(first);
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  const FenceRef third = Owe(a_);
  EXPECT_EQ(ahead_.MustWaitFor(a_).event(), second.event());
  EXPECT_EQ(ahead_.Open().size(), 2U);
}

// A device that keeps up is asked every second time, and about the youngest.
TEST_F(RunAheadTest, WhereTheYoungestHasPassedNobodyAsksForTwo) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ahead_.MustWaitFor(a_));
    Pass(Owe(a_));
  }
  EXPECT_LE(g_questions, 50);
  // And the bound holds from then on, wherever it begins.
  for (const int more : {0, 1}) {
    for (int i = 0; i < more; ++i) {
      EXPECT_FALSE(ahead_.MustWaitFor(a_));
      Pass(Owe(a_));
    }
    std::vector<FenceRef> pending;
    FenceRef oldest;
    while (!(oldest = ahead_.MustWaitFor(a_)) && pending.size() < 5) pending.push_back(Owe(a_));
    ASSERT_EQ(pending.size(), 2U);
    EXPECT_EQ(oldest.event(), pending[0].event());
    for (const FenceRef& fence : pending) Pass(fence);
  }
}

TEST_F(RunAheadTest, WhatAStreamThatIsGoneOwesStaysOpen) {
  const FenceRef first = Owe(a_);
  const FenceRef second = Owe(a_);
  ahead_.Retire(a_.handle);
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  EXPECT_EQ(ahead_.Open().size(), 2U);
  Pass(first);
  Pass(second);
  EXPECT_TRUE(ahead_.Open().empty());
}

}  // namespace
}  // namespace slipstream::transfer
