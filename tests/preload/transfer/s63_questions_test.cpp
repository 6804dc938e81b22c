// S63: once a thread's synchronize has returned, every other thread sees what it would see had the thread waited; and
// nobody waits for what no thread has waited for. S13all: what leaves the process, or ends its context, is behind the
// deferred waits of all threads.
#include <future>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Questions : public AnotherDefers {
 protected:
  static cudaEvent_t NewEvent(unsigned flags = cudaEventDefault) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
};

TEST_F(Questions, S63_AnEventRecordedBeforeHasPassed) {
  const cudaEvent_t event = NewEvent();
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  AnotherDefersOn(a_);
  const Tally tally("transfer");
  RETURNS(cudaSuccess, cudaEventQuery(event));
  DECIDED(tally, "sync.settled.query", 1);
  RETURNS(cudaSuccess, cudaEventQuery(event));
  DECIDED(tally, "sync.settled.query", 1);
}

TEST_F(Questions, S63_TheStreamIsDone) {
  AnotherDefersOn(a_);
  const Tally tally("transfer");
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.settled.query", 1);
}

// What lies in one page with registered memory is pageable: a copy there is done when it returns, and nothing of ours
// is behind it.
TEST_F(Questions, S63_TheStreamIsDoneBesideRegisteredMemory) {
  constexpr size_t kPage = 4096;
  alignas(kPage) static char page[kPage];
  OK(cudaHostRegister(page, 1, cudaHostRegisterDefault));
  OK(cudaMemcpyAsync(device_, page, 1, cudaMemcpyHostToDevice, a_));
  OK(cudaMemcpyAsync(page + 64, device_, 1, cudaMemcpyDeviceToHost, a_));
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  OK(cudaHostUnregister(page));
}

// The driver knows no default stream where no context is current; the runtime would have made one so.
TEST_F(Questions, S63_AThreadThatHasMadeNoCallYet) {
  AnotherDefersOn(cudaStreamLegacy);
  cudaError_t answer = cudaErrorUnknown;
  std::thread asks([&answer] { answer = cudaStreamQuery(nullptr); });
  asks.join();
  RETURNS(cudaSuccess, answer);
}

TEST_F(Questions, S63_TheTimeBetweenEventsIsKnown) {
  const cudaEvent_t start = NewEvent();
  const cudaEvent_t end = NewEvent();
  OK(cudaEventRecord(start, a_));
  Backlog(a_);
  OK(cudaEventRecord(end, a_));
  AnotherDefersOn(a_);
  float ms = -1;
  RETURNS(cudaSuccess, cudaEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 0.0F);
}

// One stream waits for the other: only the deferred wait's own stream says so. A question about time is no poll.
TEST_F(Questions, S63_TheTimeOnAStreamThatTheOtherWaitedFor) {
  const cudaEvent_t start = NewEvent();
  const cudaEvent_t end = NewEvent();
  OK(cudaEventRecord(start, b_));
  EarlierBacklog(b_);
  OK(cudaEventRecord(end, b_));
  OK(cudaStreamWaitEvent(a_, end, 0));
  AnotherDefersOn(a_);
  float ms = -1;
  RETURNS(cudaSuccess, cudaEventElapsedTime(&ms, start, end));
}

// As NCCL's watchdog asks: about a stream that nobody has waited for.
TEST_F(Questions, S63_WhatNoDebtCoversIsAnsweredAtOnce) {
  const cudaEvent_t event = NewEvent();
  EarlierBacklog(b_);
  OK(cudaEventRecord(event, b_));
  AnotherDefersOn(a_);
  const Tally tally("transfer");
  RETURNS(cudaErrorNotReady, cudaEventQuery(event));
  RETURNS(cudaErrorNotReady, cudaStreamQuery(b_));
  (void)cudaGetLastError();
  NEVER_DECIDED(tally, "sync.settled");
}

TEST_F(Questions, S63_AnEventRecordedAfterwardsIsTheDriversToAnswer) {
  const cudaEvent_t event = NewEvent();
  AnotherDefersOn(a_);
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  const Tally tally("transfer");
  RETURNS(cudaErrorNotReady, cudaEventQuery(event));
  float ms = 0;
  RETURNS(cudaErrorNotReady, cudaEventElapsedTime(&ms, event, event));
  (void)cudaGetLastError();
  NEVER_DECIDED(tally, "sync.settled");
}

TEST_F(Questions, S63_AnEventRecordedAgainIsANewOne) {
  const cudaEvent_t event = NewEvent();
  OK(cudaEventRecord(event, a_));
  AnotherDefersOn(a_);
  Backlog(b_);
  OK(cudaEventRecord(event, b_));
  const Tally tally("transfer");
  RETURNS(cudaErrorNotReady, cudaEventQuery(event));
  (void)cudaGetLastError();
  NEVER_DECIDED(tally, "sync.settled");
}

// The legacy default stream runs behind the earlier work of every blocking stream, and they behind its own.
TEST_F(Questions, S63_WaitingForTheLegacyStreamWaitsForBlockingOnes) {
  cudaStream_t blocking = nullptr;
  OK(cudaStreamCreate(&blocking));
  const cudaEvent_t event = NewEvent();
  const cudaEvent_t unordered = NewEvent();
  EarlierBacklog(blocking);
  OK(cudaEventRecord(event, blocking));
  EarlierBacklog(b_);
  OK(cudaEventRecord(unordered, b_));
  AnotherDefersOn(cudaStreamLegacy);
  RETURNS(cudaErrorNotReady, cudaEventQuery(unordered));
  (void)cudaGetLastError();
  RETURNS(cudaSuccess, cudaEventQuery(event));
  RETURNS(cudaSuccess, cudaStreamQuery(blocking));
}

// A stream's handle may come back; an event of the old one says nothing about the new one.
TEST_F(Questions, S63_AStreamThatIsGoneCoversNothing) {
  const cudaEvent_t event = NewEvent();
  EarlierBacklog(b_);
  OK(cudaEventRecord(event, b_));
  OK(cudaStreamDestroy(b_));
  OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
  AnotherDefersOn(b_);
  const cudaError_t answer = cudaEventQuery(event);  // whatever it is, the driver's
  EXPECT_TRUE(answer == cudaSuccess || answer == cudaErrorNotReady) << answer;
  (void)cudaGetLastError();
}

// ---- what leaves the process
TEST_F(Questions, S13all_ExportedMemory) {
  AnotherDefersOn(a_);
  cudaIpcMemHandle_t handle;
  const Tally tally("transfer");
  OK(cudaIpcGetMemHandle(&handle, device_));
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.settled.share", 1);
}

TEST_F(Questions, S13all_ATexture) {
  AnotherDefersOn(a_);
  OK(cudaDestroyTextureObject(0x100));
  EXPECT_EQ(Pending(a_), 0);
}

TEST_F(Questions, S13all_ACapture) {
  AnotherDefersOn(a_);
  OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(Pending(a_), 0);
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(b_, &graph));
}

// The thread still has deferred, and what it deferred to is gone with the context.
TEST_F(Questions, S13all_AReset) {
  AnotherDefersOn(a_);
  const Tally tally("transfer");
  OK(cudaDeviceReset());
  DECIDED(tally, "sync.settled.reset", 1);
  const uint64_t paid = simCallCount("cuEventQuery") + simCallCount("cuEventSynchronize");
  OK(cudaDeviceSynchronize());
  LetGo();  // its end settles nothing of that life
  EXPECT_EQ(simCallCount("cuEventQuery") + simCallCount("cuEventSynchronize"), paid);
}

// The runtime gives such a thread the first device.
TEST_F(Questions, S13all_AResetByAThreadThatHasMadeNoCallYet) {
  AnotherDefersOn(a_);
  std::thread resets([] { EXPECT_EQ(cudaDeviceReset(), cudaSuccess); });
  resets.join();
  const uint64_t paid = simCallCount("cuEventQuery") + simCallCount("cuEventSynchronize");
  LetGo();
  EXPECT_EQ(simCallCount("cuEventQuery") + simCallCount("cuEventSynchronize"), paid);
}

// What a stream's end asks must not break the capture that another thread has open.
TEST_F(Questions, S05_AStreamMayGoDuringAnotherThreadsGlobalCapture) {
  DeferOnA();
  std::promise<void> begun;
  std::promise<void> gone;
  std::thread captures([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamBeginCapture(b_, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(LaunchFill(device_, kSmall, 1, b_), cudaSuccess);
    begun.set_value();
    gone.get_future().wait();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaSuccess);
  });
  begun.get_future().wait();
  OK(cudaStreamDestroy(a_));
  gone.set_value();
  captures.join();
}

}  // namespace
}  // namespace rules
