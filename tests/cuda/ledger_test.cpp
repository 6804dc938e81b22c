// The ledger by itself, over the simulated device: no engine is there, and hooks are played by hand. What the engines
// make of its answers is tested with whole processes (tests/preload).

#include "cuda/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/clock.h"
#include "tests/sim/sim_test.h"

namespace slipstream::cuda {
namespace {

int g_settled = 0;
Before g_settled_before = Before::kSynchronization;
std::atomic<int> g_ran_on = 0;
std::atomic<uint64_t> g_ran_on_ns = 0;

void Spin() {
  const uint64_t end = NowNs() + 2'000'000;
  while (NowNs() < end) {
  }
}

class LedgerTest : public simtest::Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    g_settled = 0;
    g_ran_on = 0;
    g_ran_on_ns = 0;
    OK(cuCtxGetCurrent(&context_));
  }
  void TearDown() override { simClearFailures(); }

  // Never destroyed, as in the library.
  static Ledger& New() {
    static auto* const all = new std::vector<std::unique_ptr<Ledger>>;
    const auto settled = [](Before what, uint64_t) {
      ++g_settled;
      g_settled_before = what;
    };
    const auto ran_on = [](uint64_t time_ns) {
      ++g_ran_on;
      g_ran_on_ns += time_ns;
    };
    return *all->emplace_back(std::make_unique<Ledger>(Ledger::Options{.settled = settled, .ran_on = ran_on}));
  }

  // A copy to pinned memory, as the hook tells of it.
  void Fetch(cudaStream_t stream) {
    OK(simtest::LaunchFill(device_, kBytes, 7, stream));
    ledger_.Submitted(reinterpret_cast<uint64_t>(stream), [] { return true; });
    OK(cudaMemcpyAsync(pinned_, device_, kBytes, cudaMemcpyDeviceToHost, stream));
    ledger_.Touches({pinned_, kBytes, device_, kBytes}, stream, false);
  }
  // A wait that is skipped while more work lies in front of it than a few questions let run.
  void DeferBusy(cudaStream_t stream) {
    for (int i = 0; i < 64; ++i) OK(simtest::LaunchFill(device_, kBytes, 1, stream));
    ASSERT_EQ(ledger_.Defer(Key(stream)), Ledger::Deferral::kMade);
  }
  StreamKey Key(cudaStream_t stream) { return ledger_.KeyOfStream(stream, false); }
  AddressRange Pinned() const { return AddressRange::Of(pinned_, kBytes); }

  Ledger& ledger_ = New();
  CUcontext context_ = nullptr;
};

TEST_F(LedgerTest, S30b_WaitsForWhatTheHostCouldSeeAndForNothingElse) {
  EXPECT_TRUE(ledger_.Unbegun());
  ASSERT_TRUE(ledger_.WaitForHostEffects(context_));
  EXPECT_TRUE(ledger_.Serving());
  EXPECT_EQ(ledger_.context(), context_);

  std::memset(pinned_, 0, kBytes);
  OK(simtest::LaunchFill(other_, kBytes, 9, b_));
  EXPECT_TRUE(ledger_.WaitForHostEffects(context_));
  EXPECT_NE(simPendingOperations(b_), 0) << "a kernel shows the host nothing";
  Fetch(a_);
  EXPECT_EQ(pinned_[0], 0);
  EXPECT_TRUE(ledger_.WaitForHostEffects(context_));
  EXPECT_EQ(pinned_[0], 7);
}

TEST_F(LedgerTest, S30b_WhatWasSubmittedBeforeItBeganIsWaitedFor) {
  std::memset(pinned_, 0, kBytes);
  Fetch(a_);
  EXPECT_TRUE(ledger_.Unbegun());
  EXPECT_TRUE(ledger_.WaitForHostEffects(context_));
  EXPECT_EQ(pinned_[0], 7);
}

TEST_F(LedgerTest, S30b_MemoryThatIsMappedCannotBeTold) {
  ASSERT_TRUE(ledger_.WaitForHostEffects(context_));
  ledger_.UsesMappedMemory();
  EXPECT_FALSE(ledger_.WaitForHostEffects(context_));
}

// The question asks the driver, which may let work run: the answer is right if it is "not any more", too.
TEST_F(LedgerTest, S04_MemoryMayBeWrittenUntilItHasBeen) {
  ledger_.BeginIfPossible();
  EXPECT_FALSE(ledger_.MayBeWritten(Pinned()));
  std::memset(pinned_, 0, kBytes);
  Fetch(a_);
  EXPECT_TRUE(ledger_.MayBeWritten(Pinned()) || pinned_[0] == 7);
  EXPECT_FALSE(ledger_.MayBeWritten(AddressRange::Of(pageable_.data(), kBytes)));
  OK(cudaStreamSynchronize(a_));
  EXPECT_FALSE(ledger_.MayBeWritten(Pinned()));
}

TEST_F(LedgerTest, S10_EffectsOfOneStreamAndOfAnother) {
  ledger_.BeginIfPossible();
  std::vector<FenceRef> fences;
  std::memset(pinned_, 0, kBytes);
  Fetch(a_);
  EXPECT_TRUE(!ledger_.EffectsOnlyOn(Key(b_), &fences) || pinned_[0] == 7);
  OK(cudaStreamSynchronize(a_));
  fences.clear();
  std::memset(pinned_, 0, kBytes);
  Fetch(a_);
  EXPECT_TRUE(ledger_.EffectsOnlyOn(Key(a_), &fences));
  EXPECT_TRUE(!fences.empty() || pinned_[0] == 7);
}

TEST_F(LedgerTest, S05_DoesNotBeginDuringACapture) {
  const auto begin = [&] { return cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed); };
  ASSERT_EQ(ledger_.BeginCapture(a_, false, begin), cudaSuccess);
  EXPECT_FALSE(ledger_.WaitForHostEffects(context_));
  EXPECT_TRUE(ledger_.Unbegun());
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess) << "the capture is whole";
  ledger_.CaptureMayHaveEnded(a_, false);
  EXPECT_TRUE(ledger_.WaitForHostEffects(context_));
  OK(cudaGraphDestroy(graph));
}

TEST_F(LedgerTest, S12_LaterWorkIsBehindWhatWasDeferred) {
  ledger_.BeginIfPossible();
  simtest::Log log;
  OK(simtest::LaunchAppend(&log, 1, a_));
  ASSERT_EQ(ledger_.Defer(Key(a_)), Ledger::Deferral::kMade);
  EXPECT_TRUE(log.entries.empty());
  OK(simtest::LaunchAppend(&log, 2, b_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(log.entries, (std::vector<int>{1, 2}));
}

TEST_F(LedgerTest, S13_ADebtIsSettledOnceBeforeWhatWouldShowIt) {
  ledger_.BeginIfPossible();
  OK(simtest::LaunchFill(device_, kBytes, 1, a_));
  ASSERT_EQ(ledger_.Defer(Key(a_)), Ledger::Deferral::kMade);
  EXPECT_TRUE(Ledger::Defers());
  ledger_.Settle(Before::kCopy);
  EXPECT_EQ(simPendingOperations(a_), 0);
  EXPECT_EQ(g_settled, 1);
  EXPECT_EQ(g_settled_before, Before::kCopy);
  EXPECT_FALSE(Ledger::Defers());
  ledger_.Settle(Before::kCopy);
  EXPECT_EQ(g_settled, 1);
}

// ---- for how long a thread has gone on past waits that were due

TEST_F(LedgerTest, AThreadRanOnFromWhereItSkippedToWhereItSettles) {
  ledger_.BeginIfPossible();
  const uint64_t before = NowNs();
  DeferBusy(a_);
  const uint64_t after = NowNs();
  Spin();
  const uint64_t settling = NowNs();
  ledger_.Settle(Before::kSynchronization);
  EXPECT_EQ(g_ran_on, 1);
  EXPECT_GE(g_ran_on_ns, settling - after);
  EXPECT_LE(g_ran_on_ns, NowNs() - before);
}

TEST_F(LedgerTest, OfAWaitThatIsOverNothingIsKnown) {
  ledger_.BeginIfPossible();
  DeferBusy(a_);
  OK(cudaStreamSynchronize(a_));
  Spin();
  ledger_.Settle(Before::kSynchronization);
  EXPECT_EQ(g_ran_on, 0);
  EXPECT_EQ(g_ran_on_ns, 0U);
}

TEST_F(LedgerTest, NoMomentInWhichAThreadRanOnCountsTwice) {
  ledger_.BeginIfPossible();
  const uint64_t before = NowNs();
  DeferBusy(b_);
  const uint64_t after = NowNs();
  DeferBusy(a_);
  Spin();
  const uint64_t settling = NowNs();
  ledger_.Settle(Before::kSynchronization);
  EXPECT_EQ(g_ran_on, 2);
  EXPECT_GE(g_ran_on_ns, settling - after);
  EXPECT_LE(g_ran_on_ns, NowNs() - before);
}

TEST_F(LedgerTest, TheBoundTellsThatTheThreadRanOnAndSettlingNotAgain) {
  ledger_.BeginIfPossible();
  DeferBusy(a_);
  const uint64_t before = NowNs();
  DeferBusy(a_);
  const uint64_t after = NowNs();
  Spin();
  const uint64_t settling = NowNs();
  ledger_.KeepToTwo(Key(a_));
  EXPECT_EQ(g_settled, 1);
  EXPECT_EQ(g_ran_on, 1);
  EXPECT_GE(g_ran_on_ns, settling - after);
  EXPECT_LE(g_ran_on_ns, NowNs() - before);
  const uint64_t once = g_ran_on_ns;
  Spin();
  ledger_.Settle(Before::kSynchronization);
  EXPECT_EQ(g_settled, 2);
  EXPECT_EQ(g_ran_on_ns, once);
}

TEST_F(LedgerTest, AThreadThatWaitedForAFenceDidNotRunOn) {
  ledger_.BeginIfPossible();
  Fetch(b_);
  DeferBusy(a_);
  Spin();
  const uint64_t waiting = NowNs();
  ASSERT_TRUE(ledger_.WaitForHostEffects(context_));
  ledger_.Settle(Before::kSynchronization);
  EXPECT_EQ(g_ran_on, 1);
  EXPECT_LE(g_ran_on_ns, NowNs() - waiting);
}

TEST_F(LedgerTest, WhatAnotherThreadSettlesIsNotToldOf) {
  ledger_.BeginIfPossible();
  DeferBusy(a_);
  std::thread([&] {
    OK(cudaSetDevice(0));
    ledger_.SettleForAll(Before::kShare);
    DeferBusy(b_);  // settled for the thread at its end
  }).join();
  EXPECT_EQ(g_settled, 2);
  ledger_.Settle(Before::kSynchronization);
  EXPECT_EQ(g_ran_on, 0);
}

TEST_F(LedgerTest, EachThreadRanOnByItself) {
  ledger_.BeginIfPossible();
  const uint64_t before = NowNs();
  const auto run = [&](cudaStream_t stream) {
    DeferBusy(stream);
    Spin();
    ledger_.Settle(Before::kSynchronization);
  };
  std::thread other([&] {
    OK(cudaSetDevice(0));
    run(b_);
  });
  other.join();
  run(a_);
  EXPECT_EQ(g_ran_on, 2);
  EXPECT_GE(g_ran_on_ns, 4'000'000U);
  EXPECT_LE(g_ran_on_ns, NowNs() - before);
}

TEST_F(LedgerTest, S63_AnotherThreadsQueryWaitsForTheDebtOfItsStream) {
  ledger_.BeginIfPossible();
  OK(simtest::LaunchFill(device_, kBytes, 1, a_));
  OK(simtest::LaunchFill(other_, kBytes, 1, b_));
  ASSERT_EQ(ledger_.Defer(Key(a_)), Ledger::Deferral::kMade);
  std::thread([&] {
    OK(cudaSetDevice(0));
    ledger_.BeforeStreamQuery(b_, false);
    EXPECT_EQ(g_settled, 0) << "nobody has waited for the other stream";
    ledger_.BeforeStreamQuery(a_, false);
    EXPECT_EQ(simPendingOperations(a_), 0);
  }).join();
  ledger_.Settle(Before::kSynchronization);
}

TEST_F(LedgerTest, S13_AThreadsEndSettlesItsDebts) {
  ledger_.BeginIfPossible();
  OK(simtest::LaunchFill(device_, kBytes, 1, a_));
  std::thread([&] {
    OK(cudaSetDevice(0));
    ASSERT_EQ(ledger_.Defer(Key(a_)), Ledger::Deferral::kMade);
  }).join();
  EXPECT_EQ(simPendingOperations(a_), 0);
  EXPECT_EQ(g_settled_before, Before::kThreadExit);
}

// The context is gone, and is not to be made current for what nobody owes any more.
TEST_F(LedgerTest, S35_NothingIsOwedBehindAReset) {
  ledger_.BeginIfPossible();
  OK(simtest::LaunchFill(device_, kBytes, 1, a_));
  std::promise<void> deferred;
  std::promise<void> over;
  std::thread other([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(ledger_.Defer(Key(a_)), Ledger::Deferral::kMade);
    deferred.set_value();
    over.get_future().wait();
  });
  deferred.get_future().wait();
  ledger_.SettleForAll(Before::kReset);
  EXPECT_TRUE(ledger_.DeviceReset(0));
  EXPECT_EQ(ledger_.off(), Off::kContext);
  const uint64_t before = simCallCount("cuCtxSetCurrent") + simCallCount("cuCtxGetCurrent");
  ledger_.BeforeFree();
  EXPECT_EQ(simCallCount("cuCtxSetCurrent") + simCallCount("cuCtxGetCurrent"), before);
  over.set_value();
  other.join();
}

TEST_F(LedgerTest, S66_StandingAsideSettlesAndKnowsNothingAnyMore) {
  ledger_.BeginIfPossible();
  OK(simtest::LaunchFill(device_, kBytes, 1, a_));
  ASSERT_EQ(ledger_.Defer(Key(a_)), Ledger::Deferral::kMade);
  ledger_.StandAside();
  EXPECT_EQ(simPendingOperations(a_), 0);
  EXPECT_EQ(ledger_.off(), Off::kContext);
  EXPECT_FALSE(ledger_.WaitForHostEffects(context_));
}

// A call that the driver refuses is answered by "in flight", and is nobody's error.
TEST_F(LedgerTest, S17_WhatTheDriverRefusesCountsAsInFlight) {
  ledger_.BeginIfPossible();
  OK(simFailCall("cuEventRecord", CUDA_ERROR_UNKNOWN, 1, 1));
  Fetch(a_);
  simClearFailures();
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(ledger_.MayBeWritten(Pinned())) << "without a fence nobody can tell when it is over";
  EXPECT_FALSE(ledger_.WaitForHostEffects(context_));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace slipstream::cuda
