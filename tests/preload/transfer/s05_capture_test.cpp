// S05: a captured copy goes into the graph, and nothing that the engine does breaks a capture.
#include <atomic>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

constexpr cudaStreamCaptureMode kModes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                            cudaStreamCaptureModeRelaxed};

// The graph reads the source when it runs, each time.
TEST_F(Rule, S05_ACapturedCopyReadsItsSourceWhenTheGraphRuns) {
  const Tally tally("transfer");
  for (const cudaStreamCaptureMode mode : kModes) {
    for (const size_t bytes : {kSmall, kLarge}) {
      SCOPED_TRACE(std::to_string(mode) + " " + std::to_string(bytes));
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      OK(cudaStreamBeginCapture(a_, mode));
      OK(CopyUp(device_, source_.data(), bytes, a_));
      OK(cudaStreamEndCapture(a_, &graph));
      OK(cudaGraphInstantiate(&exec, graph, 0));
      for (const int value : {3, 4}) {
        source_.assign(kHuge, static_cast<uint8_t>(value));
        OK(cudaGraphLaunch(exec, a_));
        OK(cudaStreamSynchronize(a_));
        EXPECT_TRUE(HoldsOnly(device_, static_cast<uint8_t>(value), bytes));
      }
      OK(cudaGraphExecDestroy(exec));
      OK(cudaGraphDestroy(graph));
    }
  }
  DECIDED(tally, "h2d.declined.capture", 6);
  NEVER_DECIDED(tally, "h2d.promoted");
}

TEST_F(Rule, S05_OnAStreamThatJoinedTheCapture) {
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));
  const Tally tally("transfer");
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(fork, a_));
  OK(cudaStreamWaitEvent(b_, fork, 0));
  OK(CopyUp(device_, source_.data(), kSmall, b_));
  OK(cudaEventRecord(join, b_));
  OK(cudaStreamWaitEvent(a_, join, 0));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  source_.assign(kHuge, 9);
  OK(cudaGraphLaunch(exec, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(HoldsOnly(device_, 9, kSmall));
  NEVER_DECIDED(tally, "h2d.promoted");
}

TEST_F(Rule, S05_ACopyElsewhereLeavesTheCaptureWhole) {
  const Tally tally("transfer");
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(LaunchFill(scratch_, kSmall, 1, a_));
  Backlog(b_);
  OK(CopyUp(device_, source_.data(), kSmall, b_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(Pending(b_), 0);
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  EXPECT_NE(graph, nullptr);
  DECIDED(tally, "h2d.declined.capture", 1);
  NEVER_DECIDED(tally, "sync.skipped");
}

// What CUDA refuses during a capture stays refused, and breaks the capture as it does without the library.
TEST_F(Rule, S05_ErrorsOfACaptureAreThoseOfTheRealCalls) {
  cudaStream_t blocking = nullptr;
  OK(cudaStreamCreate(&blocking));
  OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  RETURNS(cudaErrorStreamCaptureImplicit, CopyUp(device_, source_.data(), kSmall, nullptr));
  RETURNS(cudaErrorStreamCaptureImplicit, cudaGetLastError());
  cudaGraph_t graph = nullptr;
  RETURNS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph));
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  RETURNS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(a_));
  RETURNS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(a_, &graph));
  (void)cudaGetLastError();
  // And then it is over.
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(Rule, S05_CopiesGoOnAfterACapture) {
  cudaGraph_t graph = nullptr;
  for (const cudaStreamCaptureMode mode : kModes) {
    OK(cudaStreamBeginCapture(a_, mode));
    OK(cudaStreamEndCapture(a_, &graph));
  }
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "sync.skipped", 1);
}

// One thread's first long copies make the engine pin memory, which CUDA forbids while another thread captures in the
// global mode, unless the thread that pins has asked for the relaxed mode.
TEST_F(Cold, S05growth_PinningMemoryBreaksNobodysCapture) {
  simHoldCalls("cuMemHostRegister_v2");
  std::atomic<bool> done{false};
  std::thread copier([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(CopyUp(device_, source_.data(), kLarge, b_), cudaSuccess);
    done = true;
  });
  while (!done && simHeldCalls() == 0) {
    std::this_thread::yield();
  }
  if (Engine()) {
    EXPECT_EQ(simHeldCalls(), 1);
  }
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  simReleaseCalls();
  copier.join();
  OK(LaunchFill(scratch_, kSmall, 1, a_));
  cudaGraph_t graph = nullptr;
  RETURNS(cudaSuccess, cudaStreamEndCapture(a_, &graph));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kLarge));
}

}  // namespace
}  // namespace rules
