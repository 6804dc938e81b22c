// S38: memory in the order of streams. S37: captures.
#include <thread>
#include <vector>

#include "tests/preload/stream_ordered/heap_test.h"

namespace rules {
namespace {

class Streams : public Heap {};

TEST_F(Streams, S38_TheSameStreamHasItAgainWithoutWaiting) {
  const Tally tally("allocator");
  for (const size_t bytes : {size_t{1000}, size_t{100'000}, kBlock}) {
    uint8_t* const old = FreedWhilePending(bytes, 0x11);
    const int pending = Pending(a_);
    uint8_t* const block = Malloc(bytes, a_);
    if (Engine()) {
      EXPECT_EQ(block, old);
    }
    EXPECT_GE(Pending(a_), pending);
    OK(LaunchFill(block, bytes, 0x22, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(HoldsOnly(block, 0x22, bytes));
    OK(cudaFreeAsync(block, a_));
  }
  DECIDED(tally, "stream.reused", 3);
}

TEST_F(Streams, S38_AnotherStreamDoesNotGetWhatWorkMayBeOn) {
  for (const size_t bytes : {size_t{1000}, size_t{100'000}, kBlock}) {
    (void)FreedWhilePending(bytes, 0x11);
    OwnOnB(Malloc(bytes, b_), bytes, 0x22);
  }
}

TEST_F(Streams, S38_PerThreadStreamsAreAsManyAsThreads) {
  for (const size_t bytes : {size_t{1000}, kBlock}) {
    std::thread([&] {
      OK(cudaSetDevice(0));
      void* block = nullptr;
      OK(cudaMallocAsync(&block, bytes, cudaStreamPerThread));
      Backlog(cudaStreamPerThread);
      OK(LaunchFill(block, bytes, 0x11, cudaStreamPerThread));
      OK(cudaFreeAsync(block, cudaStreamPerThread));
    }).join();
    uint8_t* const block = Malloc(bytes, cudaStreamPerThread);
    OK(LaunchFill(block, bytes, 0x22, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(block, 0x22, bytes));
  }
}

// The order of the free is that of the stream it is made on, whoever allocated.
TEST_F(Streams, S38_AFreeOnAnotherStream) {
  for (const size_t bytes : {size_t{1000}, kBlock}) {
    uint8_t* const block = Malloc(bytes, b_);
    OK(cudaStreamSynchronize(b_));
    Backlog(a_);
    OK(LaunchFill(block, bytes, 0x11, a_));
    OK(cudaFreeAsync(block, a_));
    OwnOnB(Malloc(bytes, b_), bytes, 0x22);
  }
}

TEST_F(Streams, S38fence_AFenceThatWasRecordedHasNotPassed) {
  for (int round = 0; round < 2; ++round) {
    (void)FreedWhilePending(kBlock, 0x11);
    uint8_t* const first = Malloc(kBlock, b_);
    uint8_t* const second = Malloc(kBlock, b_);
    OK(LaunchFill(first, kBlock, 0x22, b_));
    OwnOnB(second, kBlock, 0x33);
    EXPECT_TRUE(HoldsOnly(first, 0x22, kBlock));
  }
}

TEST_F(Streams, S38wait_WhereMemoryIsShortTheStreamWaits) {
  constexpr size_t kMost = 700 * kMiB;
  const Tally tally("allocator");
  (void)FreedWhilePending(kMost, 0x11, kBlock);
  uint8_t* const block = Malloc(kMost, b_);
  ASSERT_NE(block, nullptr);
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  DECIDED(tally, "stream.behind", 1);
  OwnOnB(block, kBlock, 0x22);
}

// The next stream has the handle, and none of the order.
TEST_F(Streams, S38destroy_AStreamIsNotItsSuccessorOfTheSameHandle) {
  for (const bool unseen : {false, true}) {
    uint8_t* const old = FreedWhilePending(kBlock, 0x11);
    const cudaStream_t before = a_;
    if (unseen) {
      EXPECT_EQ(cuStreamDestroy(a_), CUDA_SUCCESS);
    } else {
      OK(cudaStreamDestroy(a_));
    }
    OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
    ASSERT_EQ(a_, before) << "the driver gives handles again";
    uint8_t* const block = Malloc(kBlock, a_);
    if (Engine()) {
      EXPECT_NE(block, old);
    }
    OK(LaunchFill(block, kBlock, 0x22, a_));
    OK(cudaStreamSynchronize(a_));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(block, 0x22, kBlock));
    OK(cudaFree(block));
  }
}

// Nobody saw one begin, nor end.
TEST_F(Streams, S38destroy_StreamsOfTheDriverHaveTheirOwnOrder) {
  CUstream first = nullptr;
  EXPECT_EQ(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  void* old = nullptr;
  OK(cudaMallocAsync(&old, kBlock, first));
  Backlog(first);
  OK(LaunchFill(static_cast<uint8_t*>(old), kBlock, 0x11, first));
  OK(cudaFreeAsync(old, first));
  EXPECT_EQ(cuStreamDestroy(first), CUDA_SUCCESS);
  CUstream second = nullptr;
  EXPECT_EQ(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(second, first);
  uint8_t* const block = Malloc(kBlock, second);
  OK(LaunchFill(block, kBlock, 0x22, second));
  OK(cudaStreamSynchronize(second));
  OK(simQuiesce());
  EXPECT_TRUE(HoldsOnly(block, 0x22, kBlock));
}

TEST_F(Streams, S37_ACapturedAllocationIsTheGraphs) {
  cudaGraph_t graph = nullptr;
  const Tally tally("allocator");
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal));
  uint8_t* const inside = Malloc(kBlock, a_);
  OK(LaunchFill(inside, kBlock, 0x44, a_));
  OK(cudaFreeAsync(inside, a_));
  // What is not captured is served meanwhile.
  uint8_t* const outside = Malloc(kBlock, b_);
  OK(cudaStreamEndCapture(a_, &graph));
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3U);
  DECIDED(tally, "stream.passed.capture", 1);
  OwnOnB(outside, kBlock, 0x55);
}

}  // namespace
}  // namespace rules

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  rules::LimitTime();
  return RUN_ALL_TESTS();
}
