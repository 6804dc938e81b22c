// Order between streams: what CUDA promises, and that nothing more is given.
#include <algorithm>
#include <set>
#include <thread>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using StreamTest = Sim;

TEST_F(StreamTest, NothingRunsBeforeSomebodyWaits) {
  Log log;
  OK(LaunchAppend(&log, 1, a_));
  OK(LaunchAppend(&log, 2, b_));
  EXPECT_TRUE(log.entries.empty());
  EXPECT_EQ(simPendingOperations(a_), 1);
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(log.entries, std::vector<int>{2});  // seed 0: the other stream has not moved
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(log.entries, (std::vector<int>{2, 1}));
}

TEST_F(StreamTest, AStreamRunsInOrderForEverySeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    OK(simSetSeed(seed));
    Log log;
    for (int i = 0; i < 10; ++i) {
      OK(LaunchAppend(&log, i, a_));
      OK(LaunchAppend(&log, 100 + i, b_));
    }
    OK(cudaDeviceSynchronize());
    std::vector<int> mine;
    std::copy_if(log.entries.begin(), log.entries.end(), std::back_inserter(mine),
                 [](int value) { return value < 100; });
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    EXPECT_EQ(log.entries.size(), 20u);
  }
}

std::vector<int> OrderFor(uint64_t seed, cudaStream_t a, cudaStream_t b) {
  simSetSeed(seed);
  Log log;
  for (int i = 0; i < 6; ++i) {
    LaunchAppend(&log, i, a);
    LaunchAppend(&log, 100 + i, b);
  }
  cudaDeviceSynchronize();
  return log.entries;
}

TEST_F(StreamTest, UnrelatedStreamsInterleaveByTheSeedAndRepeatably) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::vector<int> first = OrderFor(seed, a_, b_);
    EXPECT_EQ(first, OrderFor(seed, a_, b_)) << seed;
    orders.insert(first);
  }
  EXPECT_GT(orders.size(), 8u);
}

TEST_F(StreamTest, AMissingWaitIsFoundOut) {
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(LaunchMove(other_, device_, kBytes, b_));  // should have waited
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(Byte(other_), 0xA5);
}

TEST_F(StreamTest, AnEventWaitOrders) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(cudaEventRecord(event, a_));
  OK(cudaStreamWaitEvent(b_, event, 0));
  OK(LaunchMove(other_, device_, kBytes, b_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(Byte(other_), 7);
}

// The wait is for the record at the time of the call, not for a later one.
TEST_F(StreamTest, AnEventWaitTakesTheRecordOfItsTime) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  OK(cudaStreamWaitEvent(b_, event, 0));  // never recorded: nothing to wait for
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(cudaEventRecord(event, a_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
}

TEST_F(StreamTest, TheLegacyStreamIsABarrierAmongBlockingStreams) {
  cudaStream_t blocking = nullptr;
  cudaStream_t after = nullptr;
  OK(cudaStreamCreate(&blocking));
  OK(cudaStreamCreate(&after));
  Log log;
  OK(LaunchAppend(&log, 1, blocking));
  OK(LaunchAppend(&log, 2, nullptr));
  OK(LaunchAppend(&log, 3, after));
  OK(LaunchAppend(&log, 4, a_));  // non-blocking: no part of this
  OK(cudaStreamSynchronize(after));
  EXPECT_EQ(log.entries, (std::vector<int>{1, 2, 3}));
}

TEST_F(StreamTest, SynchronizingTheLegacyStreamWaitsForBlockingStreamsOnly) {
  cudaStream_t blocking = nullptr;
  OK(cudaStreamCreate(&blocking));
  Log log;
  OK(LaunchAppend(&log, 1, blocking));
  OK(LaunchAppend(&log, 2, a_));
  RETURNS(cudaErrorNotReady, cudaStreamQuery(nullptr));
  OK(simSetSeed(0));
  OK(LaunchAppend(&log, 1, blocking));
  OK(LaunchAppend(&log, 3, a_));
  OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(std::count(log.entries.begin(), log.entries.end(), 1), 2);
  EXPECT_EQ(std::count(log.entries.begin(), log.entries.end(), 3), 0);
}

TEST_F(StreamTest, PerThreadStreamsAreDistinct) {
  cudaStream_t second = nullptr;
  Log log;
  OK(LaunchAppend(&log, 1, cudaStreamPerThread));
  std::thread([&log, &second] {
    LaunchAppend(&log, 2, cudaStreamPerThread);
    cudaStreamSynchronize(cudaStreamPerThread);
    second = nullptr;
  }).join();
  EXPECT_EQ(log.entries, std::vector<int>{2});
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(log.entries, (std::vector<int>{2, 1}));
}

TEST_F(StreamTest, PollingAQueryEnds) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    OK(simSetSeed(seed));
    for (int i = 0; i < 5; ++i) {
      OK(LaunchFill(device_, kBytes, i, a_));
    }
    RETURNS(cudaErrorNotReady, cudaStreamQuery(a_));  // the first answer is always no
    int polls = 0;
    while (cudaStreamQuery(a_) == cudaErrorNotReady && polls < 1000) {
      ++polls;
    }
    EXPECT_LT(polls, 1000);
  }
}

TEST_F(StreamTest, ADestroyedStreamFinishesItsWork) {
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(cudaStreamDestroy(a_));
  RETURNS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(a_));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(Byte(device_), 7);
}

TEST_F(StreamTest, ElapsedTimeFollowsDeclaredDurations) {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(start, a_));
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(cudaEventRecord(end, a_));
  float ms = 0;
  RETURNS(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
  OK(cudaStreamSynchronize(a_));
  OK(cudaEventElapsedTime(&ms, start, end));
  EXPECT_NEAR(ms, 0.010f, 0.004f);  // two kernels of 5 us, and a microsecond per submission
}

TEST_F(StreamTest, AWaitingValueHoldsTheStreamUntilItIsWritten) {
  auto* word = reinterpret_cast<uint32_t*>(pinned_);
  *word = 0;
  OK(cuStreamWaitValue32(a_, reinterpret_cast<CUdeviceptr>(word), 3, CU_STREAM_WAIT_VALUE_GEQ));
  OK(LaunchFill(device_, kBytes, 7, a_));
  for (int i = 0; i < 20; ++i) {
    RETURNS(cudaErrorNotReady, cudaStreamQuery(a_));
  }
  OK(cuStreamWriteValue32(b_, reinterpret_cast<CUdeviceptr>(word), 4, 0));
  OK(cudaStreamSynchronize(a_));  // nobody waits for b_, but only b_ can bring the value
  EXPECT_EQ(*word, 4u);
}

TEST_F(StreamTest, CudaFreeWaitsForTheWholeDevice) {
  Log log;
  OK(LaunchAppend(&log, 1, a_));
  OK(cudaFree(other_));
  EXPECT_EQ(log.entries.size(), 1u);
  OK(LaunchAppend(&log, 2, a_));
  OK(cudaFreeHost(pinned_));
  EXPECT_EQ(log.entries.size(), 2u);
}

}  // namespace
}  // namespace simtest
