// S30: memory that is freed is handed out again only behind everything that was submitted before.
#include <thread>

#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Order : public Pool {
 protected:
  // The program frees `old`, on which work is pending, and gets memory of the same size, which it uses at once on a
  // stream that nothing orders behind that work.
  void ReuseOn(cudaStream_t stream, uint8_t* old) {
    OK(cudaFree(old));
    uint8_t* const fresh = Malloc(kBlock);
    OK(cudaMemsetAsync(fresh, 0x22, kBlock, stream));
    OK(cudaStreamSynchronize(stream));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
  }
};

TEST_F(Order, S30_PendingOnAnotherStream) {
  uint8_t* const old = Malloc(kBlock);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  ReuseOn(b_, old);
  PARKED(tally, 1);
}

TEST_F(Order, S30_PendingOnTheLegacyStream) {
  uint8_t* const old = Malloc(kBlock);
  Backlog(nullptr);
  OK(LaunchFill(old, kBlock, 0x11, nullptr));
  ReuseOn(b_, old);
}

TEST_F(Order, S30_PendingFromAnotherThread) {
  uint8_t* const old = Malloc(kBlock);
  OnAnotherThread([&] {
    Backlog(a_);
    OK(LaunchFill(old, kBlock, 0x11, a_));
  });
  ReuseOn(b_, old);
}

// As a library with a runtime of its own launches: no hook sees it.
TEST_F(Order, S30_PendingUnseen) {
  uint8_t* old = Malloc(kBlock);
  Backlog(a_);
  size_t bytes = kBlock;
  int value = 0x11;
  void* arguments[] = {&old, &bytes, &value};
  OK(simLaunchUnseen(simtest::Address(&simtest::Fill), 1, 1, arguments, a_));
  ReuseOn(b_, old);
}

TEST_F(Order, S30_PendingInAGraph) {
  uint8_t* const old = Malloc(kBlock);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(LaunchFill(old, kBlock, 0x11, a_));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  cudaGraphExec_t executable = nullptr;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  Backlog(a_);
  OK(cudaGraphLaunch(executable, a_));
  ReuseOn(b_, old);
}

// Freed by one thread, wanted by another, which uses it on its own stream.
TEST_F(Order, S30_WantedByAnotherThread) {
  uint8_t* const old = Malloc(kBlock);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  OK(cudaFree(old));
  OnAnotherThread([&] {
    uint8_t* const fresh = Malloc(kBlock);
    OK(cudaMemsetAsync(fresh, 0x22, kBlock, b_));
    OK(cudaStreamSynchronize(b_));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
  });
}

// What the memory held when it was freed is nobody's business, but what is submitted before the free still reads it.
TEST_F(Order, S30_PendingReader) {
  uint8_t* const old = Malloc(kBlock);
  uint8_t* const copy = Malloc(kBlock);
  OK(cudaMemset(old, 0x33, kBlock));
  OK(cudaDeviceSynchronize());
  Backlog(a_);
  OK(cudaMemcpyAsync(copy, old, kBlock, cudaMemcpyDeviceToDevice, a_));
  ReuseOn(b_, old);
  EXPECT_TRUE(HoldsOnly(copy, 0x33, kBlock));
}

TEST_F(Order, S30_ReusedWhenThereIsNothingToWaitFor) {
  uint8_t* const old = Malloc(kBlock);
  OK(cudaMemset(old, 1, kBlock));
  OK(cudaDeviceSynchronize());
  const Tally tally("allocator");
  FreeWhenIdle(old);
  (void)Malloc(kBlock);
  DECIDED(tally, "parked", 1);
  DECIDED(tally, "reused", 1);
}

// The driver has no other memory: what is pending on the block stays in front of its new owner's work.
TEST_F(Order, S30wait_NothingElseIsLeft) {
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  ReuseOn(b_, old);
  DECIDED(tally, "reused.behind", 1);
}

// Blocks were free of work whenever they were wanted, so that a wait of the device is cheaper than a question; the next
// one is not.
TEST_F(Order, S30wait_WhereNothingWasEverPending) {
  const Tally tally("allocator");
  uint8_t* old = Malloc(kBlock);
  for (int i = 0; i < 24; ++i) {
    FreeWhenIdle(old);
    old = Malloc(kBlock);
  }
  DECIDED(tally, "grown", 1);
  DECIDED_AT_LEAST(tally, "reused", 8);
  DECIDED_AT_LEAST(tally, "reused.behind", 8);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  ReuseOn(b_, old);
  DECIDED(tally, "grown", 1);
}

TEST_F(Order, S30wait_OnAStreamThatIsMadeLater) {
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  OK(cudaFree(old));
  uint8_t* const fresh = Malloc(kBlock);
  cudaStream_t late = nullptr;
  OK(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(fresh, 0x22, kBlock, late));
  OK(cudaStreamSynchronize(late));
  OK(simQuiesce());
  EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
}

// A copy between devices runs on a stream of the other one. The driver's own free does not wait for that (measured), so
// no program may count on it; the pool is stricter.
TEST_F(Order, S30access_PendingOnAnotherDevice) {
  if (!Engine()) GTEST_SKIP() << "the driver's free waits for its own device only";
  uint8_t* const old = Malloc(kBlock);
  OK(cudaSetDevice(1));
  uint8_t* const theirs = Malloc(kBlock);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemset(theirs, 0x11, kBlock));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; ++i) {
    OK(cudaMemsetAsync(theirs, 0x11, kBlock, stream));
  }
  OK(cudaMemcpyPeerAsync(old, 0, theirs, 1, kBlock, stream));
  OK(cudaSetDevice(0));
  ReuseOn(b_, old);
}

TEST_F(Order, S30access_PendingOnAnotherDeviceAndNothingElseIsLeft) {
  if (!Engine()) GTEST_SKIP() << "the driver's free waits for its own device only";
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  OK(cudaSetDevice(1));
  uint8_t* const theirs = Malloc(kBlock);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 64; ++i) {
    OK(cudaMemsetAsync(theirs, 0x11, kBlock, stream));
  }
  OK(cudaMemcpyPeerAsync(old, 0, theirs, 1, kBlock, stream));
  OK(cudaSetDevice(0));
  ReuseOn(b_, old);
}

// The new owner is the other device: it too stays behind what was pending.
TEST_F(Order, S30access_WantedByAnotherDevice) {
  OK(cudaSetDevice(1));
  uint8_t* const theirs = Malloc(kBlock);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemset(theirs, 0x22, kBlock));
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(0));
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  OK(cudaFree(old));
  uint8_t* const fresh = Malloc(kBlock);
  DECIDED(tally, "reused.behind", 1);
  OK(cudaSetDevice(1));
  OK(cudaMemcpyPeerAsync(fresh, 0, theirs, 1, kBlock, stream));
  OK(cudaStreamSynchronize(stream));
  OK(simQuiesce());
  EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
}

}  // namespace
}  // namespace rules

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  rules::LimitTime();
  return RUN_ALL_TESTS();
}
