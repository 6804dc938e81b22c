// S10: what earlier work shows the host is there after a synchronization, although the rest of it may not be.
#include <unistd.h>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

void Mark(void* where) { std::memset(where, 7, kSmall); }
void MarkBack(cudaStream_t, cudaError_t, void* where) { Mark(where); }

int variable;

// Every effect writes 7 into the first kSmall bytes of pinned_, the way its test says.
class HostEffects : public Rule {
 protected:
  void SetUp() override {
    Rule::SetUp();
    OK(cudaMemset(other_, 7, kSmall));
    OK(cudaDeviceSynchronize());
  }

  ::testing::AssertionResult Seen() const {
    for (size_t i = 0; i < kSmall; ++i) {
      if (pinned_[i] != 7) {
        return ::testing::AssertionFailure() << "the host does not see byte " << i;
      }
    }
    return ::testing::AssertionSuccess();
  }

  // The effect on the stream of the copy: the host waits for it, and for no more.
  void OnTheSameStream(const std::function<void(cudaStream_t)>& effect) {
    for (cudaStream_t stream : {a_, cudaStreamPerThread, static_cast<cudaStream_t>(nullptr)}) {
      SCOPED_TRACE(stream == a_ ? "a stream" : stream == nullptr ? "the legacy stream" : "the per-thread stream");
      std::memset(pinned_, 0, kLarge);
      const Tally tally("transfer");
      Backlog(stream);
      effect(stream);
      OK(CopyUp(device_, source_.data(), kSmall, stream));
      OK(cudaStreamSynchronize(stream));
      EXPECT_TRUE(Seen());
      DECIDED(tally, "sync.skipped.rest", 1);
      OK(cudaDeviceSynchronize());
      OK(simQuiesce());
    }
  }

  // A graph that `work` submits to b_.
  cudaGraph_t Captured(const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    work();
    EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaSuccess);
    return graph;
  }
  cudaGraphExec_t Executable(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    return exec;
  }
  void InAGraph(cudaGraphExec_t exec) {
    OnTheSameStream([exec](cudaStream_t stream) { EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess); });
  }
  void InAGraph(const std::function<void()>& work) { InAGraph(Executable(Captured(work))); }
};

TEST_F(HostEffects, S10_ACopyToPinnedMemory) {
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_ACopyOfTheDefaultKindToPinnedMemory) {
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDefault, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_ACopyToRegisteredMemory) {
  std::vector<uint8_t> registered(kSmall, 0);
  OK(cudaHostRegister(registered.data(), kSmall, 0));
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaMemcpyAsync(registered.data(), other_, kSmall, cudaMemcpyDeviceToHost, a_));
  CopyAndSynchronize(a_);
  EXPECT_EQ(registered, std::vector<uint8_t>(kSmall, 7));
  DECIDED(tally, "sync.skipped.rest", 1);
  OK(cudaHostUnregister(registered.data()));
}
TEST_F(HostEffects, S10_A2DCopy) {
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpy2DAsync(pinned_, 64, other_, 64, 64, kSmall / 64, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_A3DCopy) {
  OnTheSameStream([this](cudaStream_t stream) {
    cudaMemcpy3DParms box = {};
    box.srcPtr = {other_, 64, 64, 8};
    box.dstPtr = {pinned_, 64, 64, 8};
    box.extent = {64, 8, kSmall / 512};
    box.kind = cudaMemcpyDeviceToHost;
    EXPECT_EQ(cudaMemcpy3DAsync(&box, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_ABatch) {
  // The legacy stream takes no batches; and what one writes is not looked at.
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyBatch(pinned_, other_, kSmall, a_));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.kept.host_effect", 1);
}
TEST_F(HostEffects, S10_ACopyFromASymbol) {
  OK(simRegisterVariable(&variable, "variable", kSmall));
  OK(cudaMemcpyToSymbol(&variable, std::vector<uint8_t>(kSmall, 7).data(), kSmall, 0, cudaMemcpyHostToDevice));
  OK(cudaDeviceSynchronize());
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyFromSymbolAsync(pinned_, &variable, kSmall, 0, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_AMemset) {
  OnTheSameStream([this](cudaStream_t stream) { EXPECT_EQ(cudaMemsetAsync(pinned_, 7, kSmall, stream), cudaSuccess); });
}
TEST_F(HostEffects, S10_A2DMemset) {
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemset2DAsync(pinned_, 64, 7, 64, kSmall / 64, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_A3DMemset) {
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemset3DAsync({pinned_, 64, 64, 8}, 7, {64, 8, kSmall / 512}, stream), cudaSuccess);
  });
}
TEST_F(HostEffects, S10_AHostFunction) {
  OnTheSameStream([this](cudaStream_t stream) { EXPECT_EQ(cudaLaunchHostFunc(stream, Mark, pinned_), cudaSuccess); });
}
TEST_F(HostEffects, S10_ACallback) {
  OnTheSameStream(
      [this](cudaStream_t stream) { EXPECT_EQ(cudaStreamAddCallback(stream, MarkBack, pinned_, 0), cudaSuccess); });
}

// Several: all of them.
TEST_F(HostEffects, S10_SeveralEffects) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaMemcpyAsync(pinned_ + kSmall, other_, kSmall, cudaMemcpyDeviceToHost, a_));
  Backlog(a_);
  OK(cudaMemsetAsync(pinned_ + 2 * kSmall, 7, kSmall, a_));
  Backlog(a_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, a_));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  EXPECT_EQ(pinned_[2 * kSmall], 7);
  EXPECT_EQ(pinned_[kSmall], 7);
  DECIDED(tally, "sync.skipped.rest", 1);
}

// Which thread has asked for the effect does not matter.
TEST_F(HostEffects, S10_AnEffectOfAnotherThread) {
  const Tally tally("transfer");
  OnAnotherThread([this] {
    Backlog(a_);
    EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, a_), cudaSuccess);
  });
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.skipped.rest", 1);
}

TEST_F(HostEffects, S10_WhatHasRunIsNotWaitedFor) {
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, a_));
  OK(cudaStreamSynchronize(a_));
  OK(simQuiesce());
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
}

// Behind the effect, what nobody on the host can see stays deferred.
TEST_F(HostEffects, S10_TheRestIsStillOwed) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, a_));
  Backlog(a_);
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.skipped.rest", 1);
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(Pending(a_), 0);
}

// ---- graphs
TEST_F(HostEffects, S10_AGraphThatCopiesToPinnedMemory) {
  InAGraph([this] { EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_), cudaSuccess); });
}
TEST_F(HostEffects, S10_AGraphThatCopiesToPageableMemory) {
  std::vector<uint8_t> pageable(kSmall, 0);
  const cudaGraphExec_t exec = Executable(Captured(
      [&] { EXPECT_EQ(cudaMemcpyAsync(pageable.data(), other_, kSmall, cudaMemcpyDeviceToHost, b_), cudaSuccess); }));
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaGraphLaunch(exec, a_));
  // (the engine does not read a source early that the graph might write)
  CopyAndSynchronize(a_);
  EXPECT_EQ(pageable, std::vector<uint8_t>(kSmall, 7));
}
TEST_F(HostEffects, S10_AGraphThatSetsPinnedMemory) {
  InAGraph([this] { EXPECT_EQ(cudaMemsetAsync(pinned_, 7, kSmall, b_), cudaSuccess); });
}
TEST_F(HostEffects, S10_AGraphWithAHostFunction) {
  InAGraph([this] { EXPECT_EQ(cudaLaunchHostFunc(b_, Mark, pinned_), cudaSuccess); });
}
TEST_F(HostEffects, S10_AGraphWithAChildGraph) {
  const cudaGraph_t child = Captured(
      [this] { EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_), cudaSuccess); });
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  const cudaGraphExec_t exec = Executable(graph);
  InAGraph(exec);
}
TEST_F(HostEffects, S10_AGraphMadeByTheDriver) {
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, Captured([this] {
    EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_), cudaSuccess);
  }),
                        0));
  InAGraph(exec);
}
TEST_F(HostEffects, S10_AGraphInstantiatedWithParameters) {
  cudaGraphInstantiateParams parameters = {};
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiateWithParams(
      &exec, Captured([this] { EXPECT_EQ(cudaLaunchHostFunc(b_, Mark, pinned_), cudaSuccess); }), &parameters));
  InAGraph(exec);
}
TEST_F(HostEffects, S10_AGraphThatWasUpdated) {
  const cudaGraphExec_t exec = Executable(
      Captured([this] { EXPECT_EQ(cudaMemcpyAsync(third_, other_, kSmall, cudaMemcpyDefault, b_), cudaSuccess); }));
  cudaGraphExecUpdateResultInfo result = {};
  OK(cudaGraphExecUpdate(exec, Captured([this] {
                           EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDefault, b_), cudaSuccess);
                         }),
                         &result));
  InAGraph(exec);
}
// Destroyed, and its handle given out again for another graph.
TEST_F(HostEffects, S10_AGraphInTheOldOnesPlace) {
  const cudaGraph_t harmless = Captured([this] { EXPECT_EQ(LaunchFill(scratch_, kSmall, 1, b_), cudaSuccess); });
  const cudaGraph_t harmful = Captured([this] { EXPECT_EQ(cudaLaunchHostFunc(b_, Mark, pinned_), cudaSuccess); });
  for (int i = 0; i < 8; ++i) {
    OK(cudaGraphExecDestroy(Executable(harmless)));
  }
  const cudaGraphExec_t exec = Executable(harmful);
  InAGraph(exec);
}
TEST_F(HostEffects, S10_AGraphThatStaysOnTheDeviceCostsNothing) {
  const cudaGraphExec_t exec = Executable(Captured([this] {
    EXPECT_EQ(LaunchFill(scratch_, kSmall, 1, b_), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(scratch_, 2, kSmall, b_), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(third_, other_, kSmall, cudaMemcpyDeviceToDevice, b_), cudaSuccess);
  }));
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaGraphLaunch(exec, a_));
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(third_, 7, kSmall));
}

// ---- on another stream: the one that the host waits for may have waited for it.
TEST_F(HostEffects, S10other_AnEffectThatTheStreamWaitsFor) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const Tally tally("transfer");
  Backlog(b_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_));
  OK(cudaEventRecord(event, b_));
  OK(cudaStreamWaitEvent(a_, event, 0));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.host_effect", 1);
}
TEST_F(HostEffects, S10other_AHostFunctionThatTheStreamWaitsFor) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Backlog(b_);
  OK(cudaLaunchHostFunc(b_, Mark, pinned_));
  OK(cudaEventRecord(event, b_));
  OK(cudaStreamWaitEvent(a_, event, 0));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
}
TEST_F(HostEffects, S10other_TheLegacyStreamWaitsForBlockingStreams) {
  cudaStream_t blocking = nullptr;
  OK(cudaStreamCreate(&blocking));
  const Tally tally("transfer");
  Backlog(blocking);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, blocking));
  CopyAndSynchronize(nullptr);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.kept.host_effect", 1);
}
TEST_F(HostEffects, S10other_AnotherThreadsPerThreadStream) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OnAnotherThread([&] {
    Backlog(cudaStreamPerThread);
    EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, cudaStreamPerThread), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, cudaStreamPerThread), cudaSuccess);
  });
  OK(cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
  CopyAndSynchronize(cudaStreamPerThread);
  EXPECT_TRUE(Seen());
}
// The stream is gone, and another one may have its handle; the effect is still to come.
TEST_F(HostEffects, S10other_AnEffectOfADestroyedStream) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Backlog(b_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_));
  OK(cudaEventRecord(event, b_));
  OK(cudaStreamDestroy(b_));
  cudaStream_t next = nullptr;
  OK(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking));
  OK(cudaStreamWaitEvent(next, event, 0));
  CopyAndSynchronize(next);
  EXPECT_TRUE(Seen());
}

// A program that copies from pinned memory alone is asked nothing about it any more, and its effects are not recorded.
// When it promotes a copy again, everything that was not recorded counts.
class Asleep : public HostEffects {
 protected:
  static constexpr int kUntilAsleep = 1100;  // more than EffectWatch::kIdleAfter

  void SetUp() override {
    HostEffects::SetUp();
    for (int i = 0; i < kUntilAsleep; ++i) PinnedCopy(a_);
    OK(cudaDeviceSynchronize());
  }
  void PinnedCopy(cudaStream_t stream) {
    ASSERT_EQ(cudaMemcpyAsync(device_, pinned_, kSmall, cudaMemcpyHostToDevice, stream), cudaSuccess);
  }
  static uint64_t Questions() {
    uint64_t calls = 0;
    for (const char* call : {"cuPointerGetAttributes", "cuEventRecord", "cuCtxGetCurrent", "cuStreamIsCapturing",
                             "cuStreamGetCtx", "cuThreadExchangeStreamCaptureMode", "cuEventQuery"}) {
      calls += simCallCount(call);
    }
    return calls;
  }
};

TEST_F(Asleep, S10asleep_ACopyFromPinnedMemoryAsksNothing) {
  for (const bool to_host : {false, true}) {
    if (to_host) {
      OK(cudaMemcpyAsync(pinned_, device_, kLarge, cudaMemcpyDeviceToHost, a_));  // the first of its kind may ask
    }
    const uint64_t before = Questions();
    const auto copy = [&] {
      return to_host ? cudaMemcpyAsync(pinned_, device_, kLarge, cudaMemcpyDeviceToHost, a_)
                     : cudaMemcpyAsync(device_, pinned_, kLarge, cudaMemcpyHostToDevice, a_);
    };
    OK(copy());
    const uint64_t one = Questions() - before;  // the runtime's own
    for (int i = 0; i < 10; ++i) OK(copy());
    EXPECT_EQ(Questions() - before, 11 * one);
    EXPECT_LE(one, 1U) << "cuCtxGetCurrent";
  }
}

TEST_F(Asleep, S10asleep_AnEffectThatWasNotRecorded) {
  Backlog(b_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_));
  const Tally tally("transfer");
  OK(CopyUp(device_, source_.data(), kSmall, b_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_TRUE(Seen());
  NEVER_DECIDED(tally, "sync.skipped");
}

TEST_F(Asleep, S10asleep_AnotherStreamsEffectThatWasNotRecorded) {
  Backlog(b_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_));
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventRecord(event, b_));
  OK(cudaStreamWaitEvent(a_, event, 0));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  RETURNS(cudaSuccess, cudaEventQuery(event));
}

// A host function that is still to write what CUDA reads in the stream's order.
TEST_F(Asleep, S10asleep_AHostFunctionThatWritesTheSource) {
  Backlog(a_);
  OK(cudaLaunchHostFunc(a_, Mark, source_.data() + kReadAtCall));
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaStreamSynchronize(a_));
  WaitElsewhere(a_);
  EXPECT_TRUE(HoldsOnly(device_ + kReadAtCall, 7, kSmall));
}

TEST_F(Asleep, S10asleep_ThenAllIsAsItWas) {
  const Tally tally("transfer");
  OK(simQuiesce());
  for (int i = 0; i < 3; ++i) {
    CopyAndSynchronize(a_);
    OK(cudaDeviceSynchronize());
    OK(simQuiesce());
  }
  EXPECT_TRUE(!Engine() || tally.Of("sync.skipped") >= 2);
  OnTheSameStream([this](cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace rules
