// S03, S04: a source that earlier work may still write is not read early. CUDA reads what lies behind the first 2 MiB
// of a long pageable source in stream order (measured), so a program may rely on its tail.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class PendingWrites : public Rule {
 protected:
  uint8_t* Tail() { return source_.data() + kReadAtCall; }
  static constexpr size_t kTail = kHuge - kReadAtCall;

  static void Rewrite(void* tail) { std::memset(tail, 7, kTail); }
  static void RewriteNode(void* tail) { Rewrite(tail); }
  static void RewriteBack(cudaStream_t, cudaError_t, void* tail) { Rewrite(tail); }

  // Copies the source on a_ and expects the tail as the earlier work has left it.
  void ExpectNewTail(const Tally& tally) {
    OK(CopyUp(device_, source_.data(), kHuge, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(device_ + kReadAtCall, 7, kTail));
    DECIDED(tally, "h2d.declined.host_effect", 1);
    NEVER_DECIDED(tally, "h2d.promoted");
  }

  cudaGraphExec_t Captured(const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    work();
    EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    return exec;
  }
};

TEST_F(PendingWrites, S03_AHostFunctionBeforeTheCopy) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaLaunchHostFunc(a_, RewriteNode, Tail()));
  ExpectNewTail(tally);
}

TEST_F(PendingWrites, S03_ACallbackBeforeTheCopy) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaStreamAddCallback(a_, RewriteBack, Tail(), 0));
  ExpectNewTail(tally);
}

TEST_F(PendingWrites, S03_AHostFunctionThatTheStreamWaitsFor) {
  const Tally tally("transfer");
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Backlog(b_);
  OK(cudaLaunchHostFunc(b_, RewriteNode, Tail()));
  OK(cudaEventRecord(event, b_));
  OK(cudaStreamWaitEvent(a_, event, 0));
  ExpectNewTail(tally);
}

TEST_F(PendingWrites, S03_AHostFunctionOfAnotherThread) {
  const Tally tally("transfer");
  Backlog(a_);
  OnAnotherThread([this] { EXPECT_EQ(cudaLaunchHostFunc(a_, RewriteNode, Tail()), cudaSuccess); });
  ExpectNewTail(tally);
}

TEST_F(PendingWrites, S03_AHostFunctionInAGraph) {
  const cudaGraphExec_t exec =
      Captured([this] { EXPECT_EQ(cudaLaunchHostFunc(b_, RewriteNode, Tail()), cudaSuccess); });
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaGraphLaunch(exec, a_));
  ExpectNewTail(tally);
}

// Two on one stream: the second one's end is what counts.
TEST_F(PendingWrites, S03_TheLastOfSeveralHostFunctions) {
  const Tally tally("transfer");
  OK(cudaLaunchHostFunc(
      a_, [](void*) {}, nullptr));
  Backlog(a_);
  OK(cudaLaunchHostFunc(a_, RewriteNode, Tail()));
  ExpectNewTail(tally);
}

TEST_F(PendingWrites, S03_AHostFunctionThatHasRunIsNoReason) {
  OK(cudaLaunchHostFunc(a_, RewriteNode, Tail()));
  OK(cudaDeviceSynchronize());
  const Tally tally("transfer");
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_));
  DECIDED(tally, "h2d.promoted.large", 1);
}

TEST_F(PendingWrites, S04_AGraphThatCopiesToTheSource) {
  const cudaGraphExec_t exec =
      Captured([this] { EXPECT_EQ(cudaMemcpyAsync(Tail(), other_, kTail, cudaMemcpyDeviceToHost, b_), cudaSuccess); });
  const Tally tally("transfer");
  Backlog(a_);
  OK(LaunchFill(other_, kTail, 7, a_));
  OK(cudaGraphLaunch(exec, a_));
  ExpectNewTail(tally);
}

// The node's destination is another one than when the graph was made.
TEST_F(PendingWrites, S04_AGraphWhoseDestinationWasChanged) {
  OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed));
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, b_));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(b_, &graph));
  cudaGraphNode_t node = nullptr;
  size_t count = 1;
  OK(cudaGraphGetNodes(graph, &node, &count));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, node, Tail(), other_, kTail, cudaMemcpyDeviceToHost));
  const Tally tally("transfer");
  Backlog(a_);
  OK(LaunchFill(other_, kTail, 7, a_));
  OK(cudaGraphLaunch(exec, a_));
  ExpectNewTail(tally);
}

TEST_F(PendingWrites, S04_ABatchThatCopiesToTheSource) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(LaunchFill(other_, kTail, 7, a_));
  OK(CopyBatch(Tail(), other_, kTail, a_));
  ExpectNewTail(tally);
}

// A pending copy to other memory is no reason to wait with this one.
TEST_F(PendingWrites, S04_ACopyToElsewhereIsNoReason) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, a_));
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  DECIDED(tally, "h2d.promoted.small", 1);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_, kSmall));
}

}  // namespace
}  // namespace rules
