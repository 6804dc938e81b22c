// How many synchronizations a stream may owe (S23), and how often the driver is asked for that.

#include "cuda/run_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "tests/cuda/played_driver.h"

namespace slipstream::cuda {
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

  FenceRef Defer(const StreamKey& stream) {
    FenceRef fence = parts_.fences.Record(Context(), stream.handle);
    ahead_.Defer(stream, fence, ++mark_);
    return fence;
  }
  static void Pass(const FenceRef& fence) { g_passed.insert(fence.event()); }

  Parts& parts_ = NewParts();
  RunAhead& ahead_ = parts_.ahead;
  uint64_t mark_ = 0;
  const StreamKey a_ = {reinterpret_cast<CUstream>(0x100), 0};
  const StreamKey b_ = {reinterpret_cast<CUstream>(0x200), 0};
};

TEST_F(RunAheadTest, TheYoungestIsToldWhereTheDriverSaysThatItHasNotPassed) {
  FenceRef running;
  (void)Defer(a_);
  (void)ahead_.MustWaitFor(a_, &running);
  EXPECT_FALSE(running) << "nobody was asked";
  const FenceRef second = Defer(a_);
  (void)ahead_.MustWaitFor(a_, &running);
  ASSERT_TRUE(running);
  EXPECT_EQ(running.event(), second.event());
  running = {};
  parts_.driver.cuEventQuery = [](CUevent) { return CUDA_ERROR_LAUNCH_FAILED; };
  (void)ahead_.MustWaitFor(a_, &running);
  EXPECT_FALSE(running) << "an error says nothing";
}

TEST_F(RunAheadTest, TheThirdWaitsForTheFirst) {
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  const FenceRef first = Defer(a_);
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  const FenceRef second = Defer(a_);
  EXPECT_EQ(ahead_.MustWaitFor(a_).event(), first.event());
  EXPECT_FALSE(ahead_.MustWaitFor(b_)) << "each stream by itself";
  Pass(first);
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  const FenceRef third = Defer(a_);
  EXPECT_EQ(ahead_.MustWaitFor(a_).event(), second.event());
  EXPECT_EQ(ahead_.Open().size(), 2U);
}

// A device that keeps up is asked every second time, and about the youngest.
TEST_F(RunAheadTest, WhereTheYoungestHasPassedNobodyAsksForTwo) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ahead_.MustWaitFor(a_));
    Pass(Defer(a_));
  }
  EXPECT_LE(g_questions, 50);
  // And the bound holds from then on, wherever it begins.
  for (const int more : {0, 1}) {
    for (int i = 0; i < more; ++i) {
      EXPECT_FALSE(ahead_.MustWaitFor(a_));
      Pass(Defer(a_));
    }
    std::vector<FenceRef> pending;
    FenceRef oldest;
    while (!(oldest = ahead_.MustWaitFor(a_)) && pending.size() < 5) pending.push_back(Defer(a_));
    ASSERT_EQ(pending.size(), 2U);
    EXPECT_EQ(oldest.event(), pending[0].event());
    for (const FenceRef& fence : pending) Pass(fence);
  }
}

TEST_F(RunAheadTest, WhatAStreamThatIsGoneOwesStaysOpen) {
  const FenceRef first = Defer(a_);
  const FenceRef second = Defer(a_);
  ahead_.Retire(a_.handle);
  EXPECT_FALSE(ahead_.MustWaitFor(a_));
  EXPECT_EQ(ahead_.Open().size(), 2U);
  Pass(first);
  Pass(second);
  EXPECT_TRUE(ahead_.MayBeOpenSince(0));
  EXPECT_TRUE(ahead_.MayBeOpenSince(1));
  EXPECT_FALSE(ahead_.MayBeOpenSince(2)) << "two were owed, and it was recorded behind the second";
  EXPECT_TRUE(ahead_.Open().empty());
  EXPECT_FALSE(ahead_.MayBeOpenSince(0));
}

// A thread that ends cannot ask, and one that destroys a stream may not where another one captures.
TEST_F(RunAheadTest, NobodyIsAskedWhereStreamsGo) {
  const StreamKey own = {CU_STREAM_PER_THREAD, 7};
  const FenceRef first = Defer(own);
  Defer(a_);
  Defer(b_);
  ahead_.ThreadEnded(0);
  ahead_.ThreadEnded(7);
  ahead_.Retire(a_.handle);
  EXPECT_EQ(g_questions, 0);
  EXPECT_FALSE(ahead_.MustWaitFor(own));
  const std::vector<RunAhead::DeferredWait> open = ahead_.Open();
  ASSERT_EQ(open.size(), 3U);
  EXPECT_EQ(open[0].fence.event(), first.event()) << "the oldest first";
  EXPECT_EQ(open[0].stream.handle, nullptr);
  EXPECT_EQ(open[2].stream, b_);
}

TEST_F(RunAheadTest, ThreadsAndStreamsThatComeAndGoLeaveNothing) {
  std::set<CUevent> events;
  for (uint64_t thread = 1; thread < 1000; ++thread) {
    const StreamKey own = {CU_STREAM_PER_THREAD, thread};
    const FenceRef fence = Defer(own);
    events.insert(fence.event());
    Pass(fence);
    ahead_.ThreadEnded(thread);
  }
  EXPECT_LE(events.size(), Sharded<int>::kShards * (RunAhead::kManyOrphans + 2)) << "fences are used again";
}

TEST_F(RunAheadTest, AWaitWithAnEnd) {
  const FenceRef fence = Defer(a_);
  EXPECT_FALSE(fence.WaitAtMost(std::chrono::milliseconds(1)));
  EXPECT_FALSE(fence.KnownDone());
  Pass(fence);
  EXPECT_TRUE(fence.WaitAtMost(std::chrono::nanoseconds(0)));
  EXPECT_TRUE(fence.KnownDone());
}

// A context that has failed answers the same for ever.
TEST_F(RunAheadTest, AnErrorEndsSuchAWait) {
  const FenceRef fence = Defer(a_);
  auto* const query = std::exchange(
      parts_.driver.cuEventQuery, +[](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; });
  EXPECT_FALSE(fence.WaitAtMost(std::chrono::hours(1)));
  parts_.driver.cuEventQuery = query;
}

// The events are gone with their context: to ask about one would be a use after its end.
TEST_F(RunAheadTest, NothingIsAskedAboutAContextThatIsGone) {
  const FenceRef fence = Defer(a_);
  const auto other_context = reinterpret_cast<CUcontext>(0x2222);
  const FenceRef elsewhere = parts_.fences.Record(other_context, b_.handle);
  parts_.fences.Abandon(Context());
  parts_.fences.Abandon(Context());
  EXPECT_TRUE(fence.Done());
  EXPECT_EQ(fence.Wait(), CUDA_SUCCESS);
  EXPECT_TRUE(ahead_.Open().empty());
  EXPECT_FALSE(parts_.fences.Record(Context(), a_.handle));
  EXPECT_EQ(g_questions, 0);
  // Another device's context lives on, and what it reads with it.
  EXPECT_FALSE(elsewhere.Done());
  EXPECT_TRUE(parts_.fences.Record(other_context, b_.handle));
}

}  // namespace
}  // namespace slipstream::cuda
